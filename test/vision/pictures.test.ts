// Pictures against Pillow: every format decoded to its pixels, 200 pictures of odd sizes resized to its bits; and files that are broken, too
// large or no pictures at all are refused by name, soon. make-fixtures.py wrote what is expected.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { PagodaError } from "../../src/core/errors.js";
import { decodePicture } from "../../src/vision/decode.js";
import { patchesOf } from "../../src/vision/patches.js";
import { crop } from "../../src/vision/picture.js";
import { openProcessor } from "../../src/vision/processor.js";
import { type Filter, resize } from "../../src/vision/resample.js";

interface SavedPicture {
  readonly name: string;
  readonly width: number;
  readonly height: number;
  readonly sha256: string;
  readonly base64: string;
}

const read = (name: string) => JSON.parse(readFileSync(`test/vision/${name}.json`, "utf8"));
const PICTURES = read("pictures") as SavedPicture[];
const LIMITS = { maxBytes: 1 << 20, maxPixels: 1 << 20 };
const sha = (data: Uint8Array): string => createHash("sha256").update(data).digest("hex");

for (const { name, width, height, sha256, base64 } of PICTURES) {
  test(`decodes ${name}`, async () => {
    const picture = await decodePicture(Buffer.from(base64, "base64"), LIMITS);
    assert.deepEqual([picture.width, picture.height, sha(picture.data)], [width, height, sha256]);
  });
}

function noise(start: number, count: number): Uint8Array {
  let seed = start;
  return Uint8Array.from({ length: count }, () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed >>> 24;
  });
}

test("resizes 200 pictures of odd sizes as Pillow does, bit for bit", () => {
  const cases = read("resized") as [number, number, number, number, Filter, string][];
  assert.equal(cases.length, 200);
  for (const [i, [width, height, toWidth, toHeight, filter, expected]] of cases.entries()) {
    const picture = { width, height, data: noise(i, width * height * 3) };
    const { data } = resize(picture, toWidth, toHeight, filter, "pillow");
    assert.equal(
      sha(data).slice(0, 16),
      expected,
      `case ${i}: ${width} x ${height} to ${toWidth} x ${toHeight}, ${filter}`,
    );
  }
});

async function codeOf(bytes: Uint8Array, limits = LIMITS): Promise<string> {
  try {
    await decodePicture(bytes, limits);
    return "decoded";
  } catch (error) {
    assert.ok(error instanceof PagodaError, `${error}`);
    return error.code;
  }
}

test("files cut off anywhere are refused by name", async () => {
  for (const { name, base64 } of PICTURES) {
    if (name === "gif two frames") continue; // its first frame ends early
    const bytes = Buffer.from(base64, "base64");
    for (let length = 0; length < bytes.length - 16; length += 1 + (bytes.length >> 4)) {
      const code = await codeOf(bytes.subarray(0, length));
      assert.ok(["image_corrupt", "image_unsupported"].includes(code), `${name} cut to ${length} bytes: ${code}`);
    }
  }
});

test("damaged files are decoded or refused by name, and the decoders live on", async () => {
  for (const [i, { base64 }] of PICTURES.entries()) {
    for (let round = 0; round < 8; round++) {
      const bytes = Buffer.from(base64, "base64");
      const damage = noise(100 * i + round, 12);
      for (let j = 0; j < 12; j += 3)
        bytes[8 + (((damage[j]! << 8) | damage[j + 1]!) % (bytes.length - 8))] = damage[j + 2]!;
      const code = await codeOf(bytes);
      assert.ok(["decoded", "image_corrupt", "image_unsupported", "image_too_large"].includes(code), code);
    }
  }
  for (const { base64 } of PICTURES) assert.equal(await codeOf(Buffer.from(base64, "base64")), "decoded");
});

test("what is too large is refused before it is decoded", async () => {
  for (const { base64 } of PICTURES) {
    const bytes = Buffer.from(base64, "base64");
    assert.equal(await codeOf(bytes, { maxBytes: bytes.length - 1, maxPixels: 1e9 }), "image_too_large");
    assert.equal(await codeOf(bytes, { maxBytes: 1e9, maxPixels: 116 }), "image_too_large");
  }
});

test("of a bomb that claims to be small no more is inflated than it claims", async () => {
  const bomb = pngOf(16, 16, deflateSync(new Uint8Array(64 << 20)));
  assert.equal(await codeOf(bomb), "decoded"); // the first 256 pixels of it
  assert.equal(await codeOf(pngOf(65_535, 65_535, deflateSync(new Uint8Array(10)))), "image_too_large");
});

test("other files are not pictures", async () => {
  const svg = '<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>';
  for (const text of [svg, "", "%PDF-1.7", "<html>", "BM", "II*\0"])
    assert.equal(await codeOf(Buffer.from(text)), "image_unsupported");
});

function pngOf(width: number, height: number, data: Uint8Array): Uint8Array {
  const chunk = (name: string, content: Uint8Array): Buffer => {
    const head = Buffer.alloc(8);
    head.writeUInt32BE(content.length);
    head.write(name, 4);
    return Buffer.concat([head, content, Buffer.alloc(4)]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width);
  header.writeUInt32BE(height, 4);
  header.set([8, 0], 8);
  const magic = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
  return Buffer.concat([magic, chunk("IHDR", header), chunk("IDAT", data), chunk("IEND", new Uint8Array(0))]);
}

test("pan and scan gives the whole of a long picture, then its parts", () => {
  const config = {
    image_processor_type: "Gemma3ImageProcessor",
    size: { height: 56, width: 56 },
    do_pan_and_scan: true,
  };
  const prepare = (width: number, height: number, more: Record<string, unknown> = {}) =>
    openProcessor({ ...config, pan_and_scan_min_crop_size: 32, ...more }, "preprocessor_config.json").prepare({
      width,
      height,
      data: noise(1, width * height * 3),
    });
  const crops = (...given: Parameters<typeof prepare>): number => prepare(...given).numCrops;
  assert.deepEqual([crops(200, 70), crops(70, 200), crops(90, 80), crops(100, 31)], [3, 3, 0, 0]);
  assert.deepEqual([crops(600, 70), crops(600, 70, { pan_and_scan_max_num_crops: 9 })], [4, 9]);
  assert.equal(crops(200, 70, { do_pan_and_scan: false }), 0);
  const long = { width: 200, height: 70, data: noise(1, 200 * 70 * 3) };
  const { frames } = prepare(200, 70);
  assert.deepEqual(
    frames.map(({ width, height }) => [width, height]),
    Array(4).fill([56, 56]),
  );
  const last = openProcessor({ ...config, do_pan_and_scan: false }, "").prepare(crop(long, 134, 0, 66, 70));
  assert.deepEqual(frames[3]!.pixels, last.frames[0]!.pixels); // 67 + 67 + 66 pixels
});

test("processors cut tiles as Hugging Face does", () => {
  const picture = (width: number, height: number) => ({ width, height, data: noise(1, width * height * 3) });
  const shape = (config: Record<string, unknown>, width: number, height: number): unknown[] => {
    const { frames, tileRows, tileColumns } = openProcessor(config, "preprocessor_config.json").prepare(
      picture(width, height),
    );
    return [frames.length, tileRows, tileColumns, ...new Set(frames.map((frame) => `${frame.width}x${frame.height}`))];
  };
  const smol = {
    image_processor_type: "SmolVLMImageProcessor",
    size: { longest_edge: 128 },
    max_image_size: { longest_edge: 64 },
  };
  assert.deepEqual(shape(smol, 100, 50), [3, 1, 2, "64x64"]);
  assert.deepEqual(shape(smol, 50, 100), [3, 2, 1, "64x64"]);
  assert.deepEqual(shape(smol, 70, 70), [5, 2, 2, "64x64"]);
  assert.deepEqual(shape({ ...smol, do_image_splitting: false }, 70, 30), [1, 0, 0, "64x64"]);
  const ocr = {
    image_processor_type: "GotOcr2ImageProcessorFast",
    size: { height: 28, width: 28 },
    crop_to_patches: true,
  };
  assert.deepEqual(shape(ocr, 60, 20), [4, 1, 3, "28x28"]);
  assert.deepEqual(shape(ocr, 300, 100), [13, 2, 6, "28x28"]); // as near in shape, and not too large
  assert.deepEqual(shape(ocr, 20, 21), [1, 0, 0, "28x28"]);
  const qwen = { image_processor_type: "Qwen2VLImageProcessor", size: { shortest_edge: 3136, longest_edge: 18_816 } };
  assert.deepEqual(shape(qwen, 20, 20), [1, 0, 0, "56x56"]);
  assert.deepEqual(shape(qwen, 1000, 300), [1, 0, 0, "224x56"]);
  assert.throws(() => shape(qwen, 500, 2), { code: "image_unsupported" });
  assert.throws(() => shape({ image_processor_type: "NoSuchProcessor" }, 9, 9), { code: "unsupported_model_option" });
});

test("patches come row by row, or block by block", () => {
  const frame = { width: 8, height: 4, pixels: Float32Array.from({ length: 96 }, (_, i) => i) };
  const firsts = (block: number): number[] => {
    const { rows, columns, values } = patchesOf(frame, { size: 2, block, isChannelFirst: true, repeat: 1 });
    assert.deepEqual([rows, columns], [2, 4]);
    return Array.from({ length: 8 }, (_, i) => values[12 * i]!);
  };
  assert.deepEqual(firsts(1), [0, 2, 4, 6, 16, 18, 20, 22]);
  assert.deepEqual(firsts(2), [0, 2, 16, 18, 4, 6, 20, 22]);
});
