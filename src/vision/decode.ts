// Pictures from bytes: PNG and GIF are decoded here, JPEG and WebP by WebAssembly builds of libjpeg and libwebp, which are optional
// dependencies: they have no install script, and run in Node and in browsers alike. What a file is, its first bytes say, not its name. The
// number of pixels is bounded before anything is decoded.

import { errorFor } from "../core/errors.js";
import { exifOfJpeg, jpegSegments, orientationOf } from "./exif.js";
import { decodeGif, gifSize } from "./gif.js";
import { onWhite, type Picture, turned } from "./picture.js";
import { decodePng, pngSize } from "./png.js";
import { wasmDecoder } from "./wasm-codecs.js";

export interface PictureLimits {
  readonly maxBytes: number;
  readonly maxPixels: number;
}

type Format = "PNG" | "JPEG" | "GIF" | "WebP";

export function formatOf(bytes: Uint8Array): Format | null {
  const begins = (at: number, text: string): boolean =>
    [...text].every((char, i) => bytes[at + i] === char.charCodeAt(0));
  if (begins(0, "\x89PNG\r\n\x1a\n")) return "PNG";
  if (begins(0, "\xff\xd8\xff")) return "JPEG";
  if (begins(0, "GIF87a") || begins(0, "GIF89a")) return "GIF";
  return begins(0, "RIFF") && begins(8, "WEBP") ? "WebP" : null;
}

/** The picture upright, its transparent parts white. */
export async function decodePicture(bytes: Uint8Array, { maxBytes, maxPixels }: PictureLimits): Promise<Picture> {
  const tooLarge = (value: number, what: string, limit: number): Error =>
    errorFor("image_too_large", { value, what, limit });
  if (bytes.length > maxBytes) throw tooLarge(bytes.length, "bytes", maxBytes);
  const format = formatOf(bytes);
  if (format === null) throw errorFor("image_unsupported", { reason: "its first bytes are those of no known format" });
  const { width, height } = SIZE_OF[format](bytes);
  if (width * height > maxPixels) throw tooLarge(width * height, "pixels", maxPixels);
  return DECODE[format](bytes);
}

const SIZE_OF: Readonly<Record<Format, (bytes: Uint8Array) => { width: number; height: number }>> = {
  PNG: pngSize,
  GIF: gifSize,
  JPEG: jpegSize,
  WebP: webpSize,
};

const DECODE: Readonly<Record<Format, (bytes: Uint8Array) => Promise<Picture>>> = {
  async PNG(bytes) {
    let orientation = 1;
    const picture = await decodePng(bytes, (exif) => {
      orientation = orientationOf(exif);
    });
    return turned(picture, orientation);
  },
  GIF: async (bytes) => decodeGif(bytes),
  JPEG: (bytes) => decodeByWasm("JPEG", bytes, exifOfJpeg(bytes)),
  WebP: (bytes) => decodeByWasm("WebP", bytes, null),
};

async function decodeByWasm(format: "JPEG" | "WebP", bytes: Uint8Array, exif: Uint8Array | null): Promise<Picture> {
  const decode = await wasmDecoder(format);
  const rgba = decode(bytes);
  return turned(onWhite(rgba.data, rgba.width, rgba.height), exif === null ? 1 : orientationOf(exif));
}

/** From the frame header, wherever it is among the segments. */
function jpegSize(bytes: Uint8Array): { width: number; height: number } {
  for (const { marker, start, end } of jpegSegments(bytes)) {
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (!isFrame || end - start < 6) continue;
    if (bytes[start + 5] === 4) throw errorFor("image_unsupported", { reason: "it is a JPEG in CMYK; save it in RGB" });
    const height = (bytes[start + 1]! << 8) | bytes[start + 2]!;
    const width = (bytes[start + 3]! << 8) | bytes[start + 4]!;
    if (width > 0 && height > 0) return { width, height };
  }
  throw errorFor("image_corrupt", { format: "JPEG", reason: "it has no frame header" });
}

/** The size of the canvas, in each of the three kinds of file. */
function webpSize(bytes: Uint8Array): { width: number; height: number } {
  const corrupt = (reason: string): Error => errorFor("image_corrupt", { format: "WebP", reason });
  if (bytes.length < 30) throw corrupt("it is cut off");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const kind = String.fromCharCode(...bytes.subarray(12, 16));
  if (kind === "VP8 ") return { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff };
  if (kind === "VP8L") {
    const bits = view.getUint32(21, true);
    return { width: (bits & 0x3fff) + 1, height: ((bits >> 14) & 0x3fff) + 1 };
  }
  if (kind !== "VP8X") throw corrupt("it has no pixels");
  const three = (at: number): number => (view.getUint32(at - 1, true) >>> 8) + 1;
  return { width: three(24), height: three(27) };
}
