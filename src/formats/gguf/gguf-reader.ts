// Reads the values of a GGUF header one after another, never trusting one: a length is checked against the bytes that are left
// and against a fixed limit before anything is allocated for it. Little endian; positions in bytes from the file's start.

import { readSync } from "node:fs";
import { FormatError } from "../../core/errors.js";

/** Largest header: metadata and tensor table. The largest vocabularies in use take some 20 MB. */
const MAX_HEADER_BYTES = 1 << 28;
/** Longest single string: chat templates reach 100 KB. */
const MAX_STRING_BYTES = 1 << 24;
/** Elements of all arrays of a file together. */
const MAX_ARRAY_ELEMENTS = 1 << 24;
const MAX_ARRAY_DEPTH = 4;
const WINDOW_BYTES = 1 << 16;

const STRING = 8;
const ARRAY = 9;
/** Fewest bytes a value of each type takes: u8 i8 u16 i16 u32 i32 f32 bool string array u64 i64 f64. */
const MIN_BYTES = [1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8];

export class GgufReader {
  readonly path: string;
  readonly fileBytes: number;
  readonly #fd: number;
  readonly #limit: number;
  #window = Buffer.alloc(WINDOW_BYTES);
  #windowStart = 0;
  #windowEnd = 0;
  #position = 0;
  #elementsLeft = MAX_ARRAY_ELEMENTS;

  constructor(fd: number, path: string, fileBytes: number) {
    this.#fd = fd;
    this.path = path;
    this.fileBytes = fileBytes;
    this.#limit = Math.min(fileBytes, MAX_HEADER_BYTES);
  }

  get position(): number {
    return this.#position;
  }

  /** Bytes that a header could still have. */
  get bytesLeft(): number {
    return this.#limit - this.#position;
  }

  u32(what: string): number {
    return this.#window.readUInt32LE(this.#take(4, what));
  }

  /** A count or length: refused above `max`. */
  size(what: string, max: number): number {
    const at = this.#take(8, what);
    const value = this.#window.readUInt32LE(at) + this.#window.readUInt32LE(at + 4) * 2 ** 32;
    // The size of the file beside it: most often it was not copied to its end.
    if (value > max) throw this.corrupt(what, `at most ${max} in a file of ${this.fileBytes} bytes`, value);
    return value;
  }

  string(what: string): string {
    const length = this.size(`length of ${what}`, Math.min(MAX_STRING_BYTES, this.bytesLeft - 8));
    if (length <= WINDOW_BYTES) {
      const at = this.#take(length, what);
      return this.#window.toString("utf8", at, at + length);
    }
    const long = Buffer.alloc(length);
    if (readSync(this.#fd, long, 0, length, this.#position) !== length) throw this.#truncated(what, length);
    this.#position += length;
    return long.toString("utf8");
  }

  /** A metadata value: number, bigint (64 bits beyond 2^53), boolean, string or an array of one of them. */
  value(what: string): unknown {
    return this.#value(this.u32(`type of ${what}`), what, 0);
  }

  corrupt(what: string, expected: string, found: string | number): FormatError {
    return new FormatError("file_corrupt", { file: this.path, what, expected, found });
  }

  #value(type: number, what: string, depth: number): unknown {
    switch (type) {
      case 0:
        return this.#window.readUInt8(this.#take(1, what));
      case 1:
        return this.#window.readInt8(this.#take(1, what));
      case 2:
        return this.#window.readUInt16LE(this.#take(2, what));
      case 3:
        return this.#window.readInt16LE(this.#take(2, what));
      case 4:
        return this.#window.readUInt32LE(this.#take(4, what));
      case 5:
        return this.#window.readInt32LE(this.#take(4, what));
      case 6:
        return this.#window.readFloatLE(this.#take(4, what));
      case 7:
        return this.#window.readUInt8(this.#take(1, what)) !== 0;
      case STRING:
        return this.string(what);
      case ARRAY:
        return this.#array(what, depth);
      case 10:
        return asNumber(this.#window.readBigUInt64LE(this.#take(8, what)));
      case 11:
        return asNumber(this.#window.readBigInt64LE(this.#take(8, what)));
      case 12:
        return this.#window.readDoubleLE(this.#take(8, what));
      default:
        throw this.corrupt(`type of ${what}`, "a GGUF value type 0..12", type);
    }
  }

  #array(what: string, depth: number): unknown[] {
    if (depth === MAX_ARRAY_DEPTH) throw this.corrupt(what, `arrays nested at most ${MAX_ARRAY_DEPTH} deep`, "deeper");
    const type = this.u32(`element type of ${what}`);
    const minBytes = MIN_BYTES[type];
    if (minBytes === undefined) throw this.corrupt(`element type of ${what}`, "a GGUF value type 0..12", type);
    const max = Math.max(0, Math.min(this.#elementsLeft, Math.floor((this.bytesLeft - 8) / minBytes)));
    const count = this.size(`length of ${what}`, max);
    this.#elementsLeft -= count;
    const values: unknown[] = [];
    if (type === STRING) for (let i = 0; i < count; i++) values.push(this.#word() ?? this.string(what));
    else for (let i = 0; i < count; i++) values.push(this.#value(type, what, depth + 1));
    return values;
  }

  /** A string that lies in the window as a whole, as nearly all of a vocabulary's do; null for any other. */
  #word(): string | null {
    const at = this.#position - this.#windowStart;
    const end = at + 8;
    if (this.#position + 8 > this.#windowEnd) return null;
    const length = this.#window.readUInt32LE(at);
    if (this.#position + 8 + length > this.#windowEnd || this.#window.readUInt32LE(at + 4) !== 0) return null;
    if (8 + length > this.bytesLeft) return null;
    this.#position += 8 + length;
    return this.#window.toString("utf8", end, end + length);
  }

  /** Moves past n bytes (at most a window) and returns where in the window they are. */
  #take(n: number, what: string): number {
    if (n > this.bytesLeft) throw this.#truncated(what, n);
    if (this.#position + n > this.#windowEnd) {
      const read = readSync(this.#fd, this.#window, 0, WINDOW_BYTES, this.#position);
      this.#windowStart = this.#position;
      this.#windowEnd = this.#position + read;
      if (read < n) throw this.#truncated(what, n);
    }
    const at = this.#position - this.#windowStart;
    this.#position += n;
    return at;
  }

  #truncated(what: string, n: number): FormatError {
    return this.corrupt(what, `${n} more bytes of header at ${this.#position}`, this.bytesLeft);
  }
}

function asNumber(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}
