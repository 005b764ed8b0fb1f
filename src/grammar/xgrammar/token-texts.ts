// What text each token is, in memory that all matcher threads share: a thread that is started again costs no copy.

export interface TokenTexts {
  /** The bytes each token adds to the text; empty for special tokens, which no grammar can ask for. */
  readonly bytes: readonly Uint8Array[]; // [V]
  /** Tokens that end an answer; allowed where the grammar may end. */
  readonly stopIds: readonly number[];
}

export interface PackedTexts {
  readonly bytes: Uint8Array; // all tokens' bytes, one after another
  readonly offsets: Int32Array; // [V + 1] where each begins
  readonly stopIds: readonly number[];
}

export function packTexts({ bytes, stopIds }: TokenTexts): PackedTexts {
  const offsets = new Int32Array(new SharedArrayBuffer(4 * (bytes.length + 1)));
  for (let id = 0; id < bytes.length; id++) offsets[id + 1] = offsets[id]! + bytes[id]!.length;
  const packed = new Uint8Array(new SharedArrayBuffer(offsets[bytes.length]!));
  for (let id = 0; id < bytes.length; id++) packed.set(bytes[id]!, offsets[id]);
  return { bytes: packed, offsets, stopIds };
}

export function unpackTexts({ bytes, offsets, stopIds }: PackedTexts): TokenTexts {
  const own = bytes.slice(); // the matcher's text decoder takes no shared memory
  const tokens = Array.from({ length: offsets.length - 1 }, (_, id) => own.subarray(offsets[id], offsets[id + 1]));
  return { bytes: tokens, stopIds };
}
