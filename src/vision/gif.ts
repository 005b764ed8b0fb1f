// GIF: its first frame.

import { errorFor } from "../core/errors.js";
import { onWhite, type Picture } from "./picture.js";

const corrupt = (reason: string): Error => errorFor("image_corrupt", { format: "GIF", reason });

export function gifSize(bytes: Uint8Array): { width: number; height: number } {
  if (bytes.length < 13) throw corrupt("it is cut off");
  const width = bytes[6]! | (bytes[7]! << 8);
  const height = bytes[8]! | (bytes[9]! << 8);
  if (width === 0 || height === 0) throw corrupt("it has no pixels");
  return { width, height };
}

export function decodeGif(bytes: Uint8Array): Picture {
  const { width, height } = gifSize(bytes);
  const paletteOf = (flags: number): number => (flags & 0x80 ? 3 * (2 << (flags & 7)) : 0);
  let at = 13 + paletteOf(bytes[10]!);
  let palette = bytes.subarray(13, at);
  let transparent = -1;
  for (;;) {
    const kind = bytes[at++];
    if (kind === 0x21) {
      // An extension; the one on graphics names the transparent colour.
      if (bytes[at] === 0xf9 && (bytes[at + 2]! & 1) === 1) transparent = bytes[at + 5]!;
      at = afterBlocks(bytes, at + 1);
    } else if (kind === 0x2c) break;
    else throw corrupt("it has no frame");
  }
  if (at + 10 > bytes.length) throw corrupt("it is cut off");
  const [left, top, frameWidth, frameHeight] = [0, 2, 4, 6].map((i) => bytes[at + i]! | (bytes[at + i + 1]! << 8));
  if (left! + frameWidth! > width || top! + frameHeight! > height) throw corrupt("its frame lies outside of it");
  const flags = bytes[at + 8]!;
  at += 9;
  const ownSize = paletteOf(flags);
  if (ownSize > 0) palette = bytes.subarray(at, at + ownSize);
  at += ownSize;
  const indices = unpack(bytes, at, frameWidth! * frameHeight!);
  const rgba = new Uint8Array(width * height * 4);
  const rows = flags & 0x40 ? interlacedRows(frameHeight!) : null;
  for (let i = 0; i < indices.length; i++) {
    const index = indices[i]!;
    if (index === transparent) continue;
    const y = Math.floor(i / frameWidth!);
    const to = ((top! + (rows === null ? y : rows[y]!)) * width + left! + (i % frameWidth!)) * 4;
    if (3 * index + 3 > palette.length) throw corrupt(`its palette has no colour ${index}`);
    for (let c = 0; c < 3; c++) rgba[to + c] = palette[3 * index + c]!;
    rgba[to + 3] = 255;
  }
  return onWhite(rgba, width, height);
}

function afterBlocks(bytes: Uint8Array, start: number): number {
  let at = start;
  while (bytes[at] !== undefined && bytes[at] !== 0) at += 1 + bytes[at]!;
  return at + 1;
}

function interlacedRows(height: number): Int32Array {
  const rows = new Int32Array(height);
  let n = 0;
  for (const [first, step] of [
    [0, 8],
    [4, 8],
    [2, 4],
    [1, 2],
  ] as const)
    for (let y = first; y < height; y += step) rows[n++] = y;
  return rows;
}

/** LZW with codes that grow to 12 bits, in blocks of up to 255 bytes. */
function unpack(bytes: Uint8Array, start: number, count: number): Uint8Array {
  const minBits = bytes[start]!;
  if (!(minBits >= 1 && minBits <= 11)) throw corrupt("its pixels are packed in an unknown way");
  const clear = 1 << minBits;
  const out = new Uint8Array(count);
  const parent = new Int16Array(4096);
  const last = new Uint8Array(4096);
  const word = new Uint8Array(4097);
  let next = clear + 2;
  let bits = minBits + 1;
  let previous = -1;
  let first = 0; // of the word before
  let filled = 0;
  let buffer = 0;
  let inBuffer = 0;
  let at = start + 1;
  let left = 0; // of the block
  while (filled < count) {
    while (inBuffer < bits) {
      if (left === 0) {
        left = bytes[at++] ?? 0;
        if (left === 0) throw corrupt(`it ends after ${filled} of ${count} pixels`);
      }
      if (at >= bytes.length) throw corrupt("it is cut off");
      buffer |= bytes[at++]! << inBuffer;
      inBuffer += 8;
      left--;
    }
    let code = buffer & ((1 << bits) - 1);
    buffer >>= bits;
    inBuffer -= bits;
    if (code === clear) {
      next = clear + 2;
      bits = minBits + 1;
      previous = -1;
      continue;
    }
    if (code === clear + 1) throw corrupt(`it ends after ${filled} of ${count} pixels`);
    if (code > next || (code === next && previous < 0)) throw corrupt("its pixels are packed in an unknown way");
    const given = code;
    let length = 0;
    if (code === next) {
      word[length++] = first;
      code = previous;
    }
    while (code >= clear + 2) {
      word[length++] = last[code]!;
      code = parent[code]!;
    }
    first = code;
    word[length++] = first;
    while (length > 0 && filled < count) out[filled++] = word[--length]!;
    if (previous >= 0 && next < 4096) {
      parent[next] = previous;
      last[next] = first;
      next++;
      if (next === 1 << bits && bits < 12) bits++;
    }
    previous = given;
  }
  return out;
}
