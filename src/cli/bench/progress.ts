// A progress bar on stderr while a benchmark runs; silent when stderr is not a terminal.

import type { EngineOptions } from "../../engine/client/engine.js";
import { loadProgress } from "../terminal.js";

export class BenchProgress {
  readonly #label: string;
  readonly #total: number;
  readonly #stream: Pick<NodeJS.WriteStream, "write" | "isTTY">;
  #done = 0;
  #drawnAt = Number.NEGATIVE_INFINITY;

  constructor(label: string, total: number, stream: Pick<NodeJS.WriteStream, "write" | "isTTY"> = process.stderr) {
    this.#label = label;
    this.#total = total;
    this.#stream = stream;
  }

  /** One more is done; `what` is what comes next. */
  advance(what = ""): void {
    this.#done++;
    const now = performance.now();
    if (this.#stream.isTTY !== true || (now - this.#drawnAt < 100 && this.#done < this.#total)) return;
    this.#drawnAt = now;
    const filled = Math.round((24 * this.#done) / Math.max(1, this.#total));
    const bar = "#".repeat(filled).padEnd(24, "-");
    this.#stream.write(`\r\x1b[K${this.#label} [${bar}] ${this.#done} of ${this.#total} ${what}`);
  }

  end(): void {
    if (this.#stream.isTTY === true) this.#stream.write("\r\x1b[K");
  }
}

/** Runs `load` with a bar of the bytes loaded. */
export async function withLoadProgress<T>(
  load: (onProgress: NonNullable<EngineOptions["onProgress"]>) => Promise<T>,
): Promise<T> {
  const progress = loadProgress("loading");
  try {
    return await load(progress.onProgress);
  } finally {
    progress.done();
  }
}
