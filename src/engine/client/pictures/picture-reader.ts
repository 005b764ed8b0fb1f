// From the bytes of a picture to the frames that a model's tower takes. Runs in a thread of its own where there is one (picture-thread.ts). What
// was prepared is kept for later questions about the same picture.

import { blake2s } from "../../../cache/page-hash.js";
import { errorFor } from "../../../core/errors.js";
import { decodePicture, type PictureLimits } from "../../../vision/decode.js";
import type { detailSettings } from "../../../vision/detail.js";
import { type Frame, openProcessor, type Processor } from "../../../vision/processor.js";
import type { ImageDetail, SeenPicture } from "./seen-picture.js";

/** What a picture may come as: its bytes, or a data: URL. */
export type PictureInput = Uint8Array | string;

/** Who asks, and until when. */
export interface PictureAsker {
  readonly signal?: AbortSignal | undefined;
  readonly client?: string;
}

/** Plain data: it crosses to the thread. */
export interface ReaderOptions {
  /** preprocessor_config.json, by detail. */
  readonly settings: ReturnType<typeof detailSettings>;
  /** Named in errors. */
  readonly file: string;
  readonly limits: PictureLimits;
  /** Of prepared pictures that are kept. */
  readonly maxBytes: number;
}

export class PictureReader {
  readonly #options: ReaderOptions;
  readonly #processors: { readonly low: Processor; readonly full: Processor };
  /** Of the settings. */
  readonly #ids: { readonly low: Int32Array; readonly full: Int32Array };
  /** The least recently used first. */
  readonly #kept = new Map<string, SeenPicture>();
  #bytes = 0;

  constructor(options: ReaderOptions) {
    const { settings, file } = options;
    this.#options = options;
    this.#ids = { low: idOf(settings.low), full: idOf(settings.full) };
    this.#processors = { low: openProcessor(settings.low, file), full: openProcessor(settings.full, file) };
  }

  /** `client`: what is kept for one is not found by another, for it could be told from the time. */
  async read(input: PictureInput, detail: ImageDetail, { client = "" }: PictureAsker = {}): Promise<SeenPicture> {
    const { limits } = this.#options;
    const bytes = typeof input === "string" ? bytesOfDataUrl(input, limits.maxBytes) : input;
    if (bytes.length > limits.maxBytes)
      throw errorFor("image_too_large", { value: bytes.length, what: "bytes", limit: limits.maxBytes });
    const quality = detail === "low" ? "low" : "full";
    const id = blake2s(bytes, 16, this.#ids[quality]);
    const key = `${id.join()} ${client}`;
    const known = this.#kept.get(key);
    if (known !== undefined) {
      this.#kept.delete(key);
      this.#kept.set(key, known);
      return known;
    }
    const picture = await decodePicture(bytes, limits);
    const { frames, ...shape } = this.#processors[quality].prepare(picture);
    const seen: SeenPicture = { type: "seen", id, frames: frames.map(shared), ...shape };
    this.#keep(key, seen);
    return seen;
  }

  #keep(key: string, seen: SeenPicture): void {
    this.#kept.set(key, seen);
    this.#bytes += sizeOf(seen);
    for (const [old, picture] of this.#kept) {
      if (this.#bytes <= this.#options.maxBytes) return;
      this.#kept.delete(old);
      this.#bytes -= sizeOf(picture);
    }
  }
}

function idOf(settings: Readonly<Record<string, unknown>>): Int32Array {
  return blake2s(new TextEncoder().encode(JSON.stringify(settings)), 16, new Int32Array(4));
}

function sizeOf({ frames }: SeenPicture): number {
  return frames.reduce((sum, { pixels }) => sum + pixels.byteLength, 0);
}

/** Its pixels in memory that threads share, so that no message copies them; as they are where there is none. */
function shared(frame: Frame): Frame {
  if (typeof SharedArrayBuffer === "undefined") return frame;
  const pixels = new Float32Array(new SharedArrayBuffer(frame.pixels.byteLength));
  pixels.set(frame.pixels);
  return { ...frame, pixels };
}

const BASE64 = /^data:[^,;]*(?:;[^,;]*)*;base64,/i;

function bytesOfDataUrl(url: string, maxBytes: number): Uint8Array {
  const head = BASE64.exec(url.slice(0, 512))?.[0];
  if (head === undefined) throw errorFor("image_unsupported", { reason: "its data: URL is not in base64" });
  const numBytes = Math.floor(((url.length - head.length) * 3) / 4);
  if (numBytes > maxBytes + 2) throw errorFor("image_too_large", { value: numBytes, what: "bytes", limit: maxBytes });
  return Buffer.from(url.slice(head.length), "base64");
}
