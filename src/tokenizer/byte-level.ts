// The byte-level alphabet of GPT-2: every byte written as one printable character, so that a BPE over characters is a BPE over
// bytes. Printable Latin-1 stands for itself; the other 68 bytes take U+0100 and up, in order.

const CHAR_OF_BYTE: readonly string[] = makeAlphabet(); // [256]
const BYTE_OF_CHAR: ReadonlyMap<string, number> = new Map(CHAR_OF_BYTE.map((char, byte) => [char, byte]));

function makeAlphabet(): string[] {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const isPrintable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
    return String.fromCharCode(isPrintable ? byte : next++);
  });
}

/** The bytes of a token written in the alphabet; null when some character is not of it. */
export function tryByteLevelBytes(token: string): Uint8Array | null {
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) {
    const byte = BYTE_OF_CHAR.get(token[i]!);
    if (byte === undefined) return null;
    bytes[i] = byte;
  }
  return bytes;
}

export function toByteLevel(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += CHAR_OF_BYTE[byte];
  return text;
}
