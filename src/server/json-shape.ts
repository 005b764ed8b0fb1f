// How deep a JSON text is nested, how many objects and lists it has and how long its strings are, without parsing it: a million objects
// or megabytes of text hold up the thread, and what walks the parsed value later is recursive, and a stack is not endless.

const [QUOTE, BACKSLASH, COLON] = [0x22, 0x5c, 0x3a];
/** In a text that has gone on for so long without a quote, the next one is looked for by the system's own search. */
const LONG_RUN = 256;

export interface JsonLimits {
  readonly depth: number;
  /** Objects and lists. */
  readonly containers: number;
  /** Bytes of a string, as it is written. */
  readonly string: number;
}

/** Which limit a text exceeds, and in which field of the outermost object (null: in none). */
export interface Excess {
  readonly limit: keyof JsonLimits;
  readonly field: string | null;
}

/** null: none. */
export function exceededLimit(bytes: Uint8Array, limits: JsonLimits): Excess | null {
  let depth = 0;
  let containers = 0;
  let [keyStart, keyEnd] = [0, 0]; // quotes of the last key of the outermost object
  const excess = (limit: keyof JsonLimits): Excess => ({ limit, field: fieldAt(bytes, keyStart, keyEnd) });
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (byte === QUOTE) {
      const start = i;
      i = endOfString(bytes, start);
      if (i - start - 1 > limits.string) return excess("string");
      if (depth === 1 && isKey(bytes, i)) [keyStart, keyEnd] = [start, i];
    } else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > limits.depth) return excess("depth");
      if (++containers > limits.containers) return excess("containers");
    } else if (byte === 0x5d || byte === 0x7d) depth--;
  }
  return null;
}

/** A colon follows the string that ends at `end`. */
function isKey(bytes: Uint8Array, end: number): boolean {
  let next = end + 1;
  while (bytes[next]! <= 0x20) next++;
  return bytes[next] === COLON;
}

/** Only names that a field could have are worth repeating to a client. */
function fieldAt(bytes: Uint8Array, keyStart: number, keyEnd: number): string | null {
  const name = Buffer.from(bytes.subarray(keyStart + 1, keyEnd)).toString("latin1");
  return /^\w{1,64}$/.test(name) ? name : null;
}

/** Where the string that begins at `start` has its closing quote; past the end when it has none. */
function endOfString(bytes: Uint8Array, start: number): number {
  let runStart = start;
  for (let i = start + 1; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (byte === QUOTE) return i;
    if (byte === BACKSLASH) runStart = ++i;
    else if (i - runStart > LONG_RUN) {
      const next = bytes.indexOf(QUOTE, i);
      if (next < 0) return bytes.length;
      let from = next;
      while (bytes[from - 1] === BACKSLASH) from--;
      if ((next - from) % 2 === 0) return next;
      runStart = i = next;
    }
  }
  return bytes.length;
}
