// Conversations with pictures: what the chat template is shown, what a picture's placeholder becomes in the text, and where the picture's tokens are
// among the ids.

import { blake2s } from "../../../cache/page-hash.js";
import { errorFor, RequestError } from "../../../core/errors.js";
import type { PictureMedium } from "../../../core/media.js";
import type { ChatPrompt, TemplateMessage } from "../../../tokenizer/chat-template.js";
import type { Spans } from "../../../tokenizer/tokenizer.js";
import { tokenGrid } from "../../../vision/patches.js";
import type { PlaceholderRule } from "../../../vision/placeholders.js";
import type { VisionFacts } from "../../messages.js";
import type { PromptMessage } from "../../served-engine.js";
import type { SeenPicture } from "./seen-picture.js";

/** The pictures of messages, in order. They have been prepared. */
export function picturesOf(messages: readonly PromptMessage[]): SeenPicture[] {
  const pictures: SeenPicture[] = [];
  for (const { content } of messages) {
    if (!Array.isArray(content)) continue;
    for (const part of content) {
      if (part.type !== "image") continue;
      const { image } = part;
      if (!isSeen(image)) {
        const expected = "prepared: await engine.prepareImages(messages)";
        throw errorFor("invalid_value", { param: "messages", value: "a conversation with pictures", expected });
      }
      pictures.push(image);
    }
  }
  return pictures;
}

export function isSeen(image: unknown): image is SeenPicture {
  return (image as Partial<SeenPicture> | null)?.type === "seen";
}

/** Text parts of a message without pictures, as one text. */
export function joinedText(messages: readonly PromptMessage[]): TemplateMessage[] {
  return messages.map((message) =>
    Array.isArray(message.content) ? { ...message, content: textOf(message) } : message,
  );
}

function textOf({ content }: PromptMessage, pictureText: () => string = () => ""): string {
  const parts = Array.isArray(content) ? content : [];
  return parts.map((part) => (part.type === "text" ? part.text : pictureText())).join("\n");
}

/** Parts as templates of models that see know them. `listsOnly`: the template looks for texts in lists alone. */
export function asParts(messages: readonly PromptMessage[], listsOnly: boolean): TemplateMessage[] {
  return messages.map((message) => {
    const { content } = message;
    if (typeof content === "string" && listsOnly) return { ...message, content: [{ type: "text", text: content }] };
    if (!Array.isArray(content)) return message;
    if (!listsOnly && content.every(({ type }) => type === "text")) return { ...message, content: textOf(message) };
    return {
      ...message,
      content: content.map((part) => (part.type === "text" ? { type: "text", text: part.text } : { type: "image" })),
    };
  });
}

/** For templates that know of no parts: marks in the text, which no message has. */
export function asMarks(messages: readonly PromptMessage[], mark: string): TemplateMessage[] {
  return messages.map((message) =>
    Array.isArray(message.content) ? { ...message, content: textOf(message, () => mark) } : message,
  );
}

/** The prompt with the text of each picture where its placeholder was: what the template wrote, never what a message says. */
export function expandPlaceholders(
  prompt: ChatPrompt,
  pictures: readonly SeenPicture[],
  vision: VisionFacts,
  { placeholder, expand }: PlaceholderRule,
): ChatPrompt | null {
  const places = ownPlaces(prompt, placeholder);
  if (places.length !== pictures.length) return null;
  return replaced(prompt, places, placeholder.length, pictures, vision, expand);
}

/** The same for marks, wherever they are. */
export function expandMarks(
  prompt: ChatPrompt,
  mark: string,
  pictures: readonly SeenPicture[],
  vision: VisionFacts,
  { expand }: PlaceholderRule,
): ChatPrompt | null {
  const places: number[] = [];
  for (let at = prompt.text.indexOf(mark); at >= 0; at = prompt.text.indexOf(mark, at + mark.length)) places.push(at);
  if (places.length !== pictures.length) return null;
  return replaced(prompt, places, mark.length, pictures, vision, expand);
}

function ownPlaces({ text, content }: ChatPrompt, placeholder: string): number[] {
  const places: number[] = [];
  let span = 0;
  for (let at = text.indexOf(placeholder); at >= 0; at = text.indexOf(placeholder, at + 1)) {
    const end = at + placeholder.length;
    while (span < content.length && content[span]![1] <= at) span++;
    if (span === content.length || content[span]![0] >= end) places.push(at);
  }
  return places;
}

function replaced(
  { text, content }: ChatPrompt,
  places: readonly number[],
  length: number,
  pictures: readonly SeenPicture[],
  vision: VisionFacts,
  expand: PlaceholderRule["expand"],
): ChatPrompt {
  const pieces: string[] = [];
  const spans: [number, number][] = [];
  let from = 0;
  let written = 0;
  /** Characters [from, to) as they are. */
  const keep = (to: number): void => {
    for (const [start, end] of content) {
      const [first, last] = [Math.max(start, from), Math.min(end, to)];
      if (first < last) spans.push([written + first - from, written + last - from]);
    }
    pieces.push(text.slice(from, to));
    written += to - from;
  };
  for (const [i, place] of places.entries()) {
    keep(place);
    const { frames, tileRows, tileColumns, numCrops } = pictures[i]!;
    const grids = frames.map((frame) => tokenGrid(vision, frame));
    const shown = expand({ grids, tileRows, tileColumns, numCrops });
    pieces.push(shown);
    written += shown.length;
    from = place + length;
  }
  keep(text.length);
  return { text: pieces.join(""), content: spans satisfies Spans };
}

/** Where the pictures are among the ids: runs of the model's image token, as many as their frames have tokens. */
export function mediaOf(
  ids: ArrayLike<number>,
  pictures: readonly SeenPicture[],
  vision: VisionFacts,
): PictureMedium[] {
  const { imageToken, isWhole, hasGrid } = vision;
  const media: PictureMedium[] = [];
  let at = 0;
  for (const picture of pictures) {
    for (const [f, frame] of picture.frames.entries()) {
      const grid = tokenGrid(vision, frame);
      const count = grid.rows * grid.columns;
      const frameId = derivedId(picture.id, f);
      for (let first = 0; first < count; ) {
        while (at < ids.length && ids[at] !== imageToken) at++;
        const start = at;
        while (at < ids.length && ids[at] === imageToken && first + at - start < count) at++;
        if (at === start) throw misplaced(`fewer than the ${pictures.length} pictures need`);
        const place = { start, end: at, id: derivedId(frameId, first), picture: { id: frameId, frame }, first };
        media.push({ ...place, isWhole, ...(hasGrid && at - start === count ? { grid } : {}) });
        if (hasGrid && at - start < count) throw misplaced("not in one run for each picture");
        first += at - start;
      }
    }
  }
  for (; at < ids.length; at++) if (ids[at] === imageToken) throw misplaced("more than the pictures have");
  return media;
}

function misplaced(value: string): RequestError {
  const expected = "as many as the pictures have, in their order";
  return new RequestError("invalid_value", { param: "prompt", value: `with image tokens ${value}`, expected });
}

function derivedId(id: Int32Array, index: number): Int32Array {
  return blake2s(new Uint8Array(Int32Array.of(index).buffer), 16, id);
}
