// Standard error as the server writes to it: never throws, never waits. A full disk, a closed pipe or a reader that takes nothing
// loses lines and nothing else; they are counted, and the count is told when lines get through again.
//
// Files and terminals are written at once, which fails or succeeds but does not wait. A pipe would wait for its reader: it is
// written behind a queue, and what the queue has no room for is lost.

import { fstatSync, writeSync } from "node:fs";

const STDERR = 2;
const MAX_QUEUED_BYTES = 2 ** 20;

/** What is needed of a stream that is written behind a queue. */
type Queue = Pick<NodeJS.WriteStream, "on" | "write" | "writableLength">;

export class LogSink {
  readonly #fd: number;
  /** null: written at once. */
  readonly #queue: Queue | null;
  #lost = 0;
  #untold = 0;

  constructor(fd: number, queue: Queue | null) {
    this.#fd = fd;
    this.#queue = queue;
    queue?.on("error", () => undefined); // each write hears of its own
  }

  /** Lines lost since the start. */
  get lost(): number {
    return this.#lost;
  }

  readonly write = (text: string): void => {
    if (this.#untold > 0 && this.#hasRoom) {
      const count = this.#untold;
      this.#untold = 0;
      const notice = { level: 40, time: Date.now(), msg: `${count} log lines were lost` };
      this.#put(`${JSON.stringify(notice)}\n`, () => {
        this.#untold += count;
      });
    }
    this.#put(text, () => {
      this.#lost++;
      this.#untold++;
    });
  };

  get #hasRoom(): boolean {
    return this.#queue === null || this.#queue.writableLength < MAX_QUEUED_BYTES;
  }

  #put(text: string, onLost: () => void): void {
    if (!this.#hasRoom) onLost();
    else if (this.#queue !== null) this.#queue.write(text, (error) => error && onLost());
    else {
      try {
        const bytes = Buffer.from(text);
        if (writeSync(this.#fd, bytes) < bytes.length) onLost();
      } catch {
        onLost();
      }
    }
  }
}

/** Pipes and sockets: their other end may not read. */
function hasReader(fd: number): boolean {
  try {
    const stat = fstatSync(fd);
    return stat.isFIFO() || stat.isSocket();
  } catch {
    return false; // closed: every write fails, and is counted
  }
}

/** One for the process: there is one standard error. */
export const stderrSink = new LogSink(STDERR, hasReader(STDERR) ? process.stderr : null);
