// How deep a JSON text is nested, without parsing it: what walks the parsed value later is recursive, and a stack is not endless.

const [QUOTE, BACKSLASH] = [0x22, 0x5c];

export function isDeeperThan(limit: number, bytes: Uint8Array): boolean {
  let depth = 0;
  let isInString = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (isInString) {
      if (byte === BACKSLASH) i++;
      else if (byte === QUOTE) isInString = false;
    } else if (byte === QUOTE) isInString = true;
    else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > limit) return true;
    } else if (byte === 0x5d || byte === 0x7d) depth--;
  }
  return false;
}
