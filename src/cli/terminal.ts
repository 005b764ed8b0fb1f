// What commands show on a terminal: colours where they make sense, progress while a model loads, sizes people can read.

import type { EngineOptions } from "../engine/client/engine.js";

const hasColor = process.stderr.isTTY === true && process.env.NO_COLOR === undefined;

export function dim(text: string): string {
  return hasColor ? `\x1b[2m${text}\x1b[0m` : text;
}

export function bold(text: string): string {
  return hasColor ? `\x1b[1m${text}\x1b[0m` : text;
}

/** Lines of at most `width`, broken between words. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line += line === "" ? word : ` ${word}`;
  }
  return [...lines, line];
}

export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = count;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/** A progress line on stderr, for engines that load; silent when stderr is not a terminal. */
export function loadProgress(label: string): { onProgress: NonNullable<EngineOptions["onProgress"]>; done(): void } {
  if (process.stderr.isTTY !== true) return { onProgress: () => undefined, done: () => undefined };
  let lastDrawn = 0;
  return {
    onProgress: (loaded, total) => {
      const now = Date.now();
      if (now - lastDrawn < 50 && loaded < total) return;
      lastDrawn = now;
      const share = total === 0 ? 1 : Math.min(1, loaded / total);
      const bar = "#".repeat(Math.round(share * 24)).padEnd(24, "-");
      process.stderr.write(`\r${label} [${bar}] ${bytes(loaded)} of ${bytes(total)}`);
    },
    done: () => process.stderr.write("\r\x1b[K"),
  };
}
