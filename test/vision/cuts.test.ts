// How LFM2-VL's and Llama 4's processors cut pictures: 150 random sizes and settings, with what Hugging Face's own functions choose for them
// (cuts.json: width, height, fewest and most tiles, fewest and most tokens; last frame of LFM2-VL, its grid; Llama 4's most tiles, whether it
// takes the largest canvas, the size of the picture on it, its grid).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { openProcessor } from "../../src/vision/processor.js";

type Case = [
  width: number,
  height: number,
  fewest: number,
  most: number,
  fewestTokens: number,
  mostTokens: number,
  last: [number, number],
  grid: [number, number],
  mostTiles: number,
  isLargest: 0 | 1,
  inner: [number, number],
  canvas: [number, number],
];
const cases = JSON.parse(readFileSync("test/vision/cuts.json", "utf8")) as Case[];
const white = (width: number, height: number) => ({
  width,
  height,
  data: new Uint8Array(3 * width * height).fill(255),
});

test("LFM2-VL's frames and tiles", () => {
  for (const [width, height, min_tiles, max_tiles, min_image_tokens, max_image_tokens, last, grid] of cases) {
    if (width * height > 1e5) continue; // large pictures take long to resize, and their grids are found in the same way
    const settings = { min_tiles, max_tiles, min_image_tokens, max_image_tokens };
    const processor = openProcessor({ image_processor_type: "Lfm2VlImageProcessorFast", ...settings }, "file");
    const { frames, tileRows, tileColumns } = processor.prepare(white(width, height));
    const end = frames.at(-1)!;
    const what = `${width} x ${height}`;
    assert.deepEqual([end.width, end.height], last, what);
    assert.deepEqual([tileRows, tileColumns], grid, what);
    const numTiles = grid[0] * grid[1];
    assert.equal(frames.length, numTiles + 1, what);
    for (const frame of frames.slice(0, numTiles)) assert.deepEqual([frame.width, frame.height], [512, 512], what);
  }
});

test("Llama 4's canvases: the picture in the corner, black beside it", () => {
  for (const [width, height, , , , , , , max_patches, isLargest, inner, canvas] of cases) {
    if (width * height > 1e5) continue;
    const settings = { max_patches, resize_to_max_canvas: isLargest === 1, size: { height: 336, width: 336 } };
    const processor = openProcessor({ image_processor_type: "Llama4ImageProcessor", ...settings }, "file");
    const { frames, tileRows, tileColumns } = processor.prepare(white(width, height));
    const what = `${width} x ${height}`;
    const numTiles = canvas[0] * canvas[1];
    assert.equal(frames.length, numTiles === 1 ? 1 : numTiles + 1, what);
    if (numTiles > 1) assert.deepEqual([tileRows, tileColumns], canvas, what);
    const bright = (along: "row" | "column"): number => {
      let count = 0;
      const tiles = along === "row" ? canvas[1] : canvas[0];
      for (let tile = 0; tile < tiles; tile++) {
        const { pixels } = frames[along === "row" ? tile : tile * canvas[1]]!;
        for (let i = 0; i < 336; i++) if (pixels[along === "row" ? i : i * 336]! > 0) count++;
      }
      return count;
    };
    assert.deepEqual([bright("row"), bright("column")], inner, what);
  }
});

test("Llama 4's pixels are rounded to bf16 in each step", () => {
  const means = { image_mean: [0.5, 0.485, 0.1], image_std: [0.5, 0.229, 0.3] };
  const processor = openProcessor(
    { image_processor_type: "Llama4ImageProcessor", ...means, size: { height: 2, width: 2 } },
    "file",
  );
  const data = Uint8Array.from([3, 3, 3, 77, 77, 77, 128, 128, 128, 254, 254, 254]);
  const { pixels } = processor.prepare({ width: 2, height: 2, data }).frames[0]!;
  assert.deepEqual(Array.from(pixels), EXPECTED);
});

/** What torch gives: the product in f32, rounded, then a difference and a quotient of bf16. */
const EXPECTED = [
  -0.9765625, -0.39453125, 0.0078125, 0.9921875, -2.0625, -0.79296875, 0.08544921875, 2.234375, -0.29296875, 0.67578125,
  1.34375, 2.96875,
];
