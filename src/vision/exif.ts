// The one field of EXIF that pictures need: how they are turned.

/** 1 to 8; 1 where it does not say. `exif` begins with the byte order. */
export function orientationOf(exif: Uint8Array): number {
  if (exif.length < 8) return 1;
  const isLittle = exif[0] === 0x49;
  const view = new DataView(exif.buffer, exif.byteOffset, exif.byteLength);
  const at = view.getUint32(4, isLittle);
  if (at + 2 > exif.length) return 1;
  const count = view.getUint16(at, isLittle);
  for (let i = 0; i < count; i++) {
    const entry = at + 2 + 12 * i;
    if (entry + 12 > exif.length) return 1;
    if (view.getUint16(entry, isLittle) !== 0x0112) continue;
    const value = view.getUint16(entry + 8, isLittle);
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

const MARKER = [0x45, 0x78, 0x69, 0x66, 0, 0]; // "Exif"

/** A JPEG's EXIF; null: it has none. */
export function exifOfJpeg(bytes: Uint8Array): Uint8Array | null {
  for (const { marker, start, end } of jpegSegments(bytes)) {
    if (marker === 0xe1 && MARKER.every((byte, i) => bytes[start + i] === byte)) return bytes.subarray(start + 6, end);
  }
  return null;
}

/** The segments before the pixels: their contents are bytes [start, end). */
export function* jpegSegments(bytes: Uint8Array): Generator<{ marker: number; start: number; end: number }> {
  for (let at = 2; at + 4 <= bytes.length; ) {
    if (bytes[at] !== 0xff) return;
    const marker = bytes[at + 1]!;
    if (marker === 0xff) {
      at++; // padding
      continue;
    }
    if (marker === 0xda || marker === 0xd9) return;
    const end = at + 2 + ((bytes[at + 2]! << 8) | bytes[at + 3]!);
    if (end > bytes.length || end < at + 4) return;
    yield { marker, start: at + 4, end };
    at = end;
  }
}
