// Writes a large file piece by piece through one buffer.

import { closeSync, openSync, writeSync } from "node:fs";

export class FileWriter {
  readonly #file: number;
  readonly #buffer = Buffer.allocUnsafe(2 ** 22);
  #used = 0;
  #written = 0;

  constructor(path: string) {
    this.#file = openSync(path, "w");
  }

  readonly put = (bytes: Uint8Array): void => {
    for (let at = 0; at < bytes.length; ) {
      if (this.#used === this.#buffer.length) this.#flush();
      const n = Math.min(bytes.length - at, this.#buffer.length - this.#used);
      this.#buffer.set(bytes.subarray(at, at + n), this.#used);
      this.#used += n;
      at += n;
    }
  };

  /** Zeros up to the next multiple of `alignment`. */
  pad(alignment: number): void {
    this.put(new Uint8Array((alignment - ((this.#written + this.#used) % alignment)) % alignment));
  }

  #flush(): void {
    for (let at = 0; at < this.#used; ) at += writeSync(this.#file, this.#buffer, at, this.#used - at);
    this.#written += this.#used;
    this.#used = 0;
  }

  /** Returns the size of the file. */
  close(): number {
    this.#flush();
    closeSync(this.#file);
    return this.#written;
  }
}
