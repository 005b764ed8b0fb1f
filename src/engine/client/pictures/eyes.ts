// The pictures of one engine's conversations: where they come from, how they are prepared, and how prompts have them.

import type { EngineConfig } from "../../../config/engine-config.js";
import { errorFor, type PagodaError, RequestError } from "../../../core/errors.js";
import type { PictureMedium } from "../../../core/media.js";
import { detailSettings } from "../../../vision/detail.js";
import { placeholderRule } from "../../../vision/placeholders.js";
import type { ContentPart, ImagePart } from "../../chat-types.js";
import type { EngineFacts, VisionFacts } from "../../messages.js";
import type { PromptMessage } from "../../served-engine.js";
import type { ChatCheckpoint } from "../chat-checkpoint.js";
import type { PictureFetcher } from "./fetch-picture.js";
import {
  asMarks,
  asParts,
  expandMarks,
  expandPlaceholders,
  isSeen,
  joinedText,
  mediaOf,
  picturesOf,
} from "./picture-prompt.js";
import type { PictureAsker, PictureInput, PictureReader, ReaderOptions } from "./picture-reader.js";
import { PictureThread } from "./picture-thread.js";
import type { Rendering } from "./rendering.js";
import type { ImageDetail, SeenPicture } from "./seen-picture.js";

/** How long a picture may take to arrive, and to be decoded and prepared. */
const FETCH_MS = 10_000;
const READ_MS = 20_000;
const PREPARED_BYTES = 128 * 2 ** 20;
/** Of the pixels of all requests that wait or run. */
const MOST_BYTES = 2 ** 30;
const DETAILS: readonly unknown[] = ["low", "high", "auto"] satisfies readonly ImageDetail[];
const PROBE = "text that is looked for";

export class ClientEyes {
  readonly #config: EngineConfig;
  readonly #checkpoint: ChatCheckpoint;
  readonly #facts: () => EngineFacts;
  readonly #held: () => number;
  /** Bytes of pictures whose conversations are being prepared. */
  #preparing = 0;
  #thread: Promise<PictureThread | PictureReader> | null = null;
  #fetcher: Promise<PictureFetcher> | null = null;
  #listsOnly: boolean | null = null;

  /** `held`: bytes of pictures that requests under way have. */
  constructor(config: EngineConfig, checkpoint: ChatCheckpoint, facts: () => EngineFacts, held: () => number) {
    this.#held = held;
    this.#config = config;
    this.#checkpoint = checkpoint;
    this.#facts = facts;
  }

  /** The messages with their pictures read and prepared. Those that are already stay as they are. */
  async prepare(messages: readonly PromptMessage[], asker: PictureAsker = {}): Promise<PromptMessage[]> {
    this.#checkCount(messages);
    let own = 0;
    let isOver = false;
    const read = async (part: ImagePart): Promise<ImagePart> => {
      const seen = await this.#read(part, asker);
      const bytes = isSeen(part.image) || isOver ? 0 : pixelBytes([seen]);
      own += bytes;
      this.#preparing += bytes;
      this.#checkRoom(own, this.#preparing - own);
      return { ...part, image: seen };
    };
    try {
      return await Promise.all(
        messages.map(async (message) => {
          if (!hasRawPictures(message)) return message;
          const parts = message.content as readonly ContentPart[];
          const content = await Promise.all(parts.map((part) => (part.type === "image" ? read(part) : part)));
          return { ...message, content };
        }),
      );
    } finally {
      isOver = true; // what is read after a refusal counts for nobody
      this.#preparing -= own;
    }
  }

  /** A request alone may have as many as it may name; of several, all together have a limit. */
  #checkRoom(own: number, others: number): void {
    const held = this.#held() + others;
    if (held === 0 || own + held <= MOST_BYTES) return;
    const value = Math.ceil((own + held) / 2 ** 20);
    throw errorFor("pictures_full", { value, limit: MOST_BYTES / 2 ** 20 });
  }

  #checkCount(messages: readonly PromptMessage[]): void {
    let value = 0;
    for (const { content } of messages)
      if (Array.isArray(content)) for (const { type } of content) if (type === "image") value++;
    if (value > 0) this.#vision();
    const limit = this.#config.maxImages;
    if (value > limit) throw errorFor("too_many_images", { value, limit });
  }

  /** Throws for a model without eyes. */
  #vision(): VisionFacts {
    const { vision } = this.#facts();
    if (vision !== null && this.#checkpoint.processor !== null) return vision;
    const reason = this.#config.images
      ? "it has no vision tower that is served"
      : "it was loaded without its eyes (images: false)";
    throw errorFor("no_eyes", { model: this.#checkpoint.name, reason });
  }

  async #read({ image, detail = "auto" }: ImagePart, asker: PictureAsker): Promise<SeenPicture> {
    if (isSeen(image)) return image;
    if (!DETAILS.includes(detail)) throw invalid("detail", detail, "low, high or auto");
    const input = await this.#input(image, asker.signal);
    return (await this.#readerNow()).read(input, detail, asker);
  }

  async #input(image: Exclude<ImagePart["image"], SeenPicture>, signal?: AbortSignal): Promise<PictureInput> {
    if (image instanceof Uint8Array) return image;
    if (image instanceof ArrayBuffer) return new Uint8Array(image);
    if (image instanceof Blob) {
      const limit = this.#maxBytes;
      if (image.size > limit) throw errorFor("image_too_large", { value: image.size, what: "bytes", limit });
      return new Uint8Array(await image.arrayBuffer());
    }
    const isUrl = typeof image === "string" || image instanceof URL;
    if (!isUrl) throw invalid("image", typeof image, "a URL, or the bytes of a picture");
    const url = String(image);
    if (/^data:/i.test(url)) return url;
    return (await this.#fetcherNow()).fetch(url, signal);
  }

  get #maxBytes(): number {
    return this.#config.maxImageMb * 2 ** 20;
  }

  // Most engines never see a picture: what reads one is loaded with the first.

  #fetcherNow(): Promise<PictureFetcher> {
    const { allowedMediaDomains: domains, allowedMediaPath: path } = this.#config;
    const options = { domains, path, maxBytes: this.#maxBytes, maxMs: FETCH_MS };
    this.#fetcher ??= import("./fetch-picture.js").then(({ PictureFetcher }) => new PictureFetcher(options));
    return this.#fetcher;
  }

  #readerNow(): Promise<PictureThread | PictureReader> {
    this.#thread ??= this.#openReader(this.#vision());
    return this.#thread;
  }

  async #openReader({ maxFrameTokens }: VisionFacts): Promise<PictureThread | PictureReader> {
    const { raw, file } = this.#checkpoint.processor!;
    const architecture = architectureOf(this.#checkpoint);
    const options: ReaderOptions = {
      settings: detailSettings(raw, { architecture, maxFrameTokens }),
      file,
      limits: { maxBytes: this.#maxBytes, maxPixels: this.#config.maxImageMegapixels * 1e6 },
      maxBytes: PREPARED_BYTES,
    };
    if (this.#config.worker) return new PictureThread(options, READ_MS);
    const { PictureReader } = await import("./picture-reader.js");
    return new PictureReader(options);
  }

  /** What the template is to render for a conversation, one thing after another, and the prompt that comes of it. */
  *rendering(messages: readonly PromptMessage[]): Rendering {
    const { vision } = this.#facts();
    const pictures = picturesOf(messages);
    if (vision === null || this.#checkpoint.processor === null) {
      if (pictures.length > 0) this.#vision(); // it says why not
      return { ...(yield joinedText(messages)), pictures };
    }
    const parts = asParts(messages, this.#takesListsOnly());
    if (pictures.length === 0) return { ...(yield parts), pictures };
    const { visionConfig: config, configFile } = this.#checkpoint;
    const tokenOf = (id: number): string | null => this.#checkpoint.requireTokenizer().idToToken(id);
    const source = { config, configFile, imageToken: vision.imageToken, tokenOf };
    const rule = placeholderRule(architectureOf(this.#checkpoint), source);
    let refusal: unknown;
    try {
      const shown = expandPlaceholders(yield parts, pictures, vision, rule);
      if (shown !== null) return { ...shown, pictures };
    } catch (error) {
      if ((error as PagodaError).code !== "template_failed") throw error;
      refusal = error;
    }
    // Not a template for pictures: their places are marked in the text.
    const mark = unusedMark(messages);
    const marked = expandMarks(yield asMarks(messages, mark), mark, pictures, vision, rule);
    if (marked !== null) return { ...marked, pictures };
    throw refusal ?? new RequestError("template_failed", { reason: "it does not show each picture once." });
  }

  /** The template looks for texts in lists of parts alone. */
  #takesListsOnly(): boolean {
    const shows = (content: unknown): boolean => {
      try {
        return this.#checkpoint.chatTemplate!.glance([{ role: "user", content }])?.text.includes(PROBE) ?? false;
      } catch {
        return false;
      }
    };
    this.#listsOnly ??= !shows(PROBE) && shows([{ type: "text", text: PROBE }]);
    return this.#listsOnly;
  }

  /** Where the pictures are among a prompt's ids, of a request that is about to begin. */
  mediaOf(ids: readonly number[], pictures: readonly SeenPicture[]): PictureMedium[] {
    this.#checkRoom(pixelBytes(pictures), 0);
    return mediaOf(ids, pictures, this.#vision());
  }

  async close(): Promise<void> {
    const reader = await this.#thread?.catch(() => null);
    if (reader instanceof PictureThread) await reader.close();
  }
}

function pixelBytes(pictures: readonly SeenPicture[]): number {
  return pictures.reduce((sum, { frames }) => sum + frames.reduce((all, { pixels }) => all + pixels.byteLength, 0), 0);
}

export function hasRawPictures({ content }: PromptMessage): boolean {
  return Array.isArray(content) && content.some((part) => part.type === "image" && !isSeen(part.image));
}

function architectureOf({ visionConfig }: ChatCheckpoint): string {
  return String((visionConfig.architectures as readonly unknown[] | undefined)?.[0] ?? "");
}

/** A text that is in no message. */
function unusedMark(messages: readonly PromptMessage[]): string {
  const all = messages.map(({ content }) => (typeof content === "string" ? content : JSON.stringify(content))).join();
  for (let i = 0; ; i++) {
    const mark = `\u{f0000}${i}\u{f0001}`;
    if (!all.includes(mark)) return mark;
  }
}

function invalid(param: string, value: unknown, expected: string): RequestError {
  return new RequestError("invalid_value", { param, value: String(value), expected });
}
