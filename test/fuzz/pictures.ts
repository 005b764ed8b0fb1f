// Picture files made wrong: reading one ends in frames within the limits or in an error of ours that names pictures, never in one of JavaScript's.

import { readFileSync } from "node:fs";
import { PagodaError } from "../../src/core/errors.js";
import { decodePicture } from "../../src/vision/decode.js";
import { openProcessor, type Processor } from "../../src/vision/processor.js";
import { seeded } from "../support/byte-matcher.js";
import { mutateBytes, pick, type Random } from "./mutate.js";

const LIMITS = { maxBytes: 2 ** 20, maxPixels: 250_000 };

export class PictureFuzzer {
  readonly #files: readonly Buffer[];
  readonly #processor: Processor;

  constructor() {
    const pictures = JSON.parse(readFileSync("test/vision/pictures.json", "utf8")) as { base64: string }[];
    this.#files = pictures.map(({ base64 }) => Buffer.from(base64, "base64"));
    const settings = { image_processor_type: "Qwen2VLImageProcessor", max_pixels: 28 * 28 * 16, min_pixels: 28 * 28 };
    this.#processor = openProcessor(settings, "preprocessor_config.json");
  }

  /** What is wrong with how the mutated file was taken; null when nothing is. */
  async try(seed: number): Promise<string | null> {
    const bytes = this.#mutated(seeded(seed));
    try {
      const picture = await decodePicture(bytes, LIMITS);
      const { width, height, data } = picture;
      if (width * height > LIMITS.maxPixels || data.length !== width * height * 3) return `${width} x ${height} pixels`;
      const { frames } = this.#processor.prepare(picture);
      return frames.every(({ pixels }) => pixels.every(Number.isFinite)) ? null : "pixels that are no numbers";
    } catch (error) {
      const isOurs = error instanceof PagodaError && error.code.startsWith("image_");
      return isOurs ? null : String((error as Error).stack ?? error);
    }
  }

  /** Bytes changed, mostly near the beginning, where sizes are; sometimes the end of another file, or none. */
  #mutated(random: Random): Uint8Array {
    const file = pick(random, this.#files);
    let bytes: Uint8Array = file;
    const kind = random();
    if (kind < 0.15) bytes = file.subarray(0, Math.floor(random() * file.length));
    else if (kind < 0.3)
      bytes = Buffer.concat([file.subarray(0, Math.floor(random() * file.length)), pick(random, this.#files)]);
    else if (kind < 0.6) {
      bytes = Uint8Array.from(file);
      for (let i = 0; i < 3; i++) bytes[Math.floor(random() ** 3 * bytes.length)] = Math.floor(random() * 256);
    }
    return kind > 0.5 ? mutateBytes(Buffer.from(bytes), random) : bytes;
  }
}
