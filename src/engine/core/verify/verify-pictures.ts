// The pictures of golden cases: prepared as the processor of the checkpoint does, compared with the pixels that Hugging Face got, and encoded.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { blake2s } from "../../../cache/page-hash.js";
import { FormatError } from "../../../core/errors.js";
import type { Medium } from "../../../core/media.js";
import type { Device, KvDtype, WeightQuantization } from "../../../device/device.js";
import { visionOf } from "../../../models/vision/registry.js";
import { type EncodedFrame, type Eyes, tokenGrid, type VisionSpec } from "../../../models/vision/vision-model.js";
import { decodePicture } from "../../../vision/decode.js";
import { patchesOf } from "../../../vision/patches.js";
import { type Frame, openProcessor, type Processor } from "../../../vision/processor.js";
import type { Checkpoint } from "../../checkpoint.js";

/** The fields of a case with pictures. */
export interface GoldenPictures {
  /** Files beside golden.json. */
  readonly images?: readonly string[];
  readonly pixel_shape?: readonly number[];
  /** The first numbers of the processor's output. */
  readonly pixel_head?: readonly number[];
  readonly pixel_mean?: number;
  readonly pixel_std?: number;
}

export interface SeenPictures {
  readonly media: readonly Medium[];
  readonly pixelDifference: number;
}

const NO_LIMITS = { maxBytes: 2 ** 28, maxPixels: 2 ** 28 };

export class GoldenEyes {
  readonly #eyes: Eyes;
  readonly #processor: Processor;
  readonly #folder: string;

  constructor(eyes: Eyes, processor: Processor, folder: string) {
    this.#eyes = eyes;
    this.#processor = processor;
    this.#folder = folder;
  }

  /** null: the checkpoint has no eyes, or the cases no pictures. */
  static open(
    checkpoint: Checkpoint,
    source: ReturnType<Checkpoint["openTensors"]>,
    goldens: readonly GoldenPictures[],
    { device, quantize, kvDtype }: { device: Device; quantize: WeightQuantization; kvDtype: KvDtype },
    folder: string,
  ): GoldenEyes | null {
    const family = goldens.some(({ images = [] }) => images.length > 0) ? visionOf(checkpoint.visionConfig) : null;
    if (family === null || checkpoint.processor === null) return null;
    const config = family.parseConfig(checkpoint.visionConfig, checkpoint.configFile);
    const { raw, file } = checkpoint.processor;
    const maxTokens = family.specOf(config).maxTokens ?? 4096;
    const eyes = family.load(
      config,
      { device, source: checkpoint.openVisionTensors() ?? source, quantize, hasExactPages: kvDtype === "f32" },
      { maxTokens },
    );
    return new GoldenEyes(eyes, openProcessor(raw, file), folder);
  }

  get numDeeper(): number {
    return this.#eyes.spec.numRows - 1;
  }

  /** The media of a case, and how far its pixels are from the golden ones. */
  async see(golden: GoldenPictures, prompt: readonly number[]): Promise<SeenPictures> {
    const frames: Frame[] = [];
    for (const name of golden.images ?? []) {
      const picture = await decodePicture(readFileSync(join(this.#folder, name)), NO_LIMITS);
      frames.push(...this.#processor.prepare(picture).frames);
    }
    const { spec } = this.#eyes;
    const media: Medium[] = [];
    let at = 0;
    const encoded = await this.#encode(frames);
    for (const [f, frame] of frames.entries()) {
      const grid = tokenGrid(spec, frame);
      const start = runOf(prompt, spec.imageToken, at, grid.rows * grid.columns, this.#folder);
      at = start + grid.rows * grid.columns;
      const rows = encoded[f]!.rows;
      const id = blake2s(new Uint8Array(rows.buffer), 16, new Int32Array(4));
      media.push({ start, end: at, id, rows, isWhole: spec.isWhole, ...(spec.hasGrid ? { grid } : {}) });
    }
    return { media, pixelDifference: pixelDifference(golden, frames, spec) };
  }

  /** As many together as the tower takes. */
  async #encode(frames: readonly Frame[]): Promise<EncodedFrame[]> {
    const encoded: EncodedFrame[] = [];
    for (let from = 0, to = 0; from < frames.length; from = to) {
      for (to = from + 1; to < frames.length && this.#eyes.fits(frames.slice(from, to + 1)); ) to++;
      encoded.push(...(await this.#eyes.encode(frames.slice(from, to))));
    }
    return encoded;
  }
}

/** Where the next `count` placeholders begin. */
function runOf(prompt: readonly number[], token: number, from: number, count: number, file: string): number {
  const start = prompt.indexOf(token, from);
  const isRun = start >= 0 && prompt.slice(start, start + count).every((id) => id === token);
  if (isRun && start + count <= prompt.length) return start;
  const expected = `${count} image tokens (${token}) in a row`;
  throw new FormatError("file_corrupt", { file, what: "prompt", expected, found: "fewer" });
}

/** Of the first numbers, the mean and the standard deviation. */
function pixelDifference(golden: GoldenPictures, frames: readonly Frame[], spec: VisionSpec): number {
  const { pixel_shape: shape, pixel_head: head = [], pixel_mean: mean, pixel_std: std } = golden;
  if (shape === undefined || mean === undefined || std === undefined) return 0;
  const { repeat, isChannelFirst } = spec.patches;
  const arePatches = repeat > 1 || !isChannelFirst;
  const values = frames.map((frame) => (arePatches ? patchesOf(frame, spec.patches).values : padded(frame, shape)));
  const count = shape.reduce((product, size) => product * size, 1);
  let sum = 0;
  let squares = 0;
  for (const part of values) for (const value of part) sum += value;
  const ownMean = sum / count;
  let numSeen = 0;
  for (const part of values) {
    for (const value of part) squares += (value - ownMean) ** 2;
    numSeen += part.length;
  }
  squares += (count - numSeen) * ownMean ** 2; // padding
  const ownStd = Math.sqrt(squares / (count - 1));
  let worst = Math.max(Math.abs(ownMean - mean), Math.abs(ownStd - std));
  for (const [i, value] of head.entries()) worst = Math.max(worst, Math.abs(values[0]![i]! - value));
  return worst;
}

/** The frame in the corner of one of the shape's size. */
function padded({ width, height, pixels }: Frame, shape: readonly number[]): Float32Array {
  const [toHeight, toWidth] = shape.slice(-2) as [number, number];
  if (toWidth === width && toHeight === height) return pixels;
  const out = new Float32Array(3 * toWidth * toHeight);
  for (let c = 0; c < 3; c++)
    for (let y = 0; y < height; y++)
      out.set(pixels.subarray((c * height + y) * width, (c * height + y + 1) * width), (c * toHeight + y) * toWidth);
  return out;
}
