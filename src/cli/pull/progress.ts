// The progress of a pull on stderr: a bar with rate and time left on a terminal, a line per file elsewhere.

import { bytes } from "../terminal.js";

type OnProgress = (doneBytes: number, totalBytes: number, file: string) => void;

export function pullProgress(
  model: string,
  { stream = process.stderr as Pick<NodeJS.WriteStream, "write" | "isTTY">, now = Date.now } = {},
): { readonly onProgress: OnProgress; done(): void } {
  const startedAt = now();
  let first: number | null = null; // bytes at the first report: what was there already says nothing of the rate
  let drawnAt = 0;
  let isDrawn = false;
  let lastFile = "";
  const onProgress: OnProgress = (done, total, file) => {
    first ??= done;
    if (stream.isTTY !== true) {
      if (file !== lastFile) stream.write(`${model}: ${file}\n`);
      lastFile = file;
      return;
    }
    if (now() - drawnAt < 100 && done < total) return;
    drawnAt = now();
    isDrawn = true;
    const share = total === 0 ? 1 : done / total;
    const rate = ((done - first) / Math.max(1, now() - startedAt)) * 1000;
    const left = rate > 0 ? `, ${Math.ceil((total - done) / rate)} s left` : "";
    const bar = "#".repeat(Math.round(share * 24)).padEnd(24, "-");
    stream.write(`\r\x1b[K[${bar}] ${bytes(done)} of ${bytes(total)}, ${bytes(rate)}/s${left}  ${file}`);
  };
  return {
    onProgress,
    done: () => {
      if (isDrawn) stream.write("\r\x1b[K");
      isDrawn = false;
    },
  };
}
