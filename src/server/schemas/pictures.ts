// Pictures in bodies: OpenAI's parts, which every API is turned into, and each API's own.

import { z } from "zod";

const url = z.string().min(1);
const detail = z.enum(["low", "high", "auto"]).nullish();

/** OpenAI's part of a chat message. */
export const imagePart = z.strictObject({
  type: z.literal("image_url"),
  image_url: z.union([url, z.strictObject({ url, detail })]),
  cache_control: z.unknown().optional(),
  uuid: z.unknown().optional(),
});

/** OpenAI's part of a response's input. */
export const inputImage = z.strictObject({
  type: z.literal("input_image"),
  image_url: z.string({ error: "is missing: files are not kept here, send the picture as a data: URL" }).min(1),
  detail,
  file_id: z.null("files are not kept here; send image_url").optional(),
});

/** Anthropic's block. */
export const imageBlock = z.strictObject({
  type: z.literal("image"),
  source: z.discriminatedUnion(
    "type",
    [
      z.strictObject({ type: z.literal("base64"), media_type: z.string(), data: z.string().min(1) }),
      z.strictObject({ type: z.literal("url"), url }),
    ],
    { error: "only base64 and url sources are supported: files are not kept here" },
  ),
  cache_control: z.unknown().optional(),
});

/** Ollama's list: base64. */
export const ollamaImages = z.array(z.string().min(1)).nullish();

export type ImagePartBody = z.output<typeof imagePart>;

/** The part that stands for bytes in base64, or a data: URL. */
export function partOfBase64(data: string): ImagePartBody {
  return partOfUrl(/^data:/i.test(data) ? data : `data:image;base64,${data}`);
}

export function partOfUrl(from: string, quality?: "low" | "high" | "auto" | null): ImagePartBody {
  return { type: "image_url", image_url: quality == null ? from : { url: from, detail: quality } };
}

export function partOfBlock({ source }: z.output<typeof imageBlock>): ImagePartBody {
  return source.type === "url" ? partOfUrl(source.url) : partOfBase64(source.data);
}
