// Pictures that the command line names: files of whoever types, as data: URLs, so that a conversation with them can be kept in a file.

import { readFileSync } from "node:fs";
import { ConfigError } from "../core/errors.js";
import type { ChatMessage, ContentPart, ImagePart } from "../engine/chat-types.js";

/** What a message says: a text, or pictures and a text. */
export type Said = string | readonly ContentPart[];

export function pictureOf(file: string): ImagePart {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    throw new ConfigError("invalid_option", {
      param: "image",
      value: file,
      expected: `a file (${(error as Error).message})`,
    });
  }
  return { type: "image", image: `data:image;base64,${bytes.toString("base64")}` };
}

/** The pictures come before the text. */
export function withPictures(pictures: readonly ContentPart[], text: string): Said {
  return pictures.length === 0 ? text : [...pictures, { type: "text", text }];
}

/** As OpenAI's API has it. */
export function onTheWire(messages: readonly ChatMessage[]): unknown[] {
  return messages.map(({ content, ...rest }) => ({
    ...rest,
    content: Array.isArray(content) ? content.map(wirePart) : content,
  }));
}

function wirePart(part: ContentPart): unknown {
  return part.type === "text" ? part : { type: "image_url", image_url: { url: part.image } };
}
