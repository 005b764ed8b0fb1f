// Parts an answer into what a reasoning model thinks between tags and what it says. Works on text as it comes.

import { MOST_SPACE, partialTagLen, textLen } from "./tools/tags.js";

export interface ReasoningTags {
  readonly name: string;
  readonly open: string;
  readonly close: string;
  /** The tags are special tokens, which must stay in the text to be seen. */
  readonly needsSpecialTokens: boolean;
}

const tags = (name: string, open: string, close: string, needsSpecialTokens = true): ReasoningTags => ({
  name,
  open,
  close,
  needsSpecialTokens,
});

export const THINK = tags("think", "<think>", "</think>", false);
/** By name; the first one whose opening tag a chat template shows is the model's. */
export const REASONING_TAGS: readonly ReasoningTags[] = [
  tags("seed", "<seed:think>", "</seed:think>"),
  tags("mistral", "[THINK]", "[/THINK]"),
  tags("gemma4", "<|channel>thought", "<channel|>"),
  tags("cohere", "<|START_THINKING|>", "<|END_THINKING|>"),
  THINK,
];

/** Granite puts what it says between tags of its own. */
const RESPONSE = "<response>";
const RESPONSE_END = "</response>";

export interface SplitPart {
  readonly kind: "reasoning" | "content";
  readonly text: string;
}

export class ReasoningSplitter {
  readonly #tags: ReasoningTags;
  /** gap: white space after the closing tag, dropped. */
  #state: "start" | "reasoning" | "gap" | "content" | "response";
  #held = "";
  #hasThought = false;

  /** `isThinking`: the prompt ended inside an opening tag. */
  constructor(tags: ReasoningTags, isThinking: boolean) {
    this.#tags = tags;
    this.#state = isThinking ? "reasoning" : "start";
  }

  get isThinking(): boolean {
    return this.#state === "reasoning";
  }

  get hasThought(): boolean {
    return this.#hasThought;
  }

  push(text: string): SplitPart[] {
    const parts: SplitPart[] = [];
    this.#held += text;
    if (this.#state === "start") this.#readStart();
    if (this.#state === "reasoning") this.#readReasoning(parts);
    if (this.#state === "gap") this.#readGap();
    if (this.#state === "content") this.#show(parts, "content", this.#held.length);
    if (this.#state === "response") this.#readResponse(parts);
    return parts;
  }

  flush(): SplitPart[] {
    const parts: SplitPart[] = [];
    this.#show(parts, this.#state === "reasoning" ? "reasoning" : "content", this.#held.length);
    return parts;
  }

  #readStart(): void {
    const { open } = this.#tags;
    const rest = this.#held.trimStart();
    if (this.#held.length - rest.length > MOST_SPACE) {
      this.#state = "content";
    } else if (rest.startsWith(open)) {
      this.#held = rest.slice(open.length);
      this.#state = "reasoning";
    } else if (!open.startsWith(rest)) this.#state = "content";
  }

  #readReasoning(parts: SplitPart[]): void {
    const { close } = this.#tags;
    if (!this.#hasThought) this.#held = this.#held.trimStart(); // the line break after the tag
    this.#hasThought ||= this.#held !== "";
    const at = this.#held.indexOf(close);
    if (at < 0) {
      // The tag may be half here, and white space before it belongs to it.
      const sure = this.#held.length - partialTagLen(this.#held, close);
      this.#show(parts, "reasoning", textLen(this.#held, sure));
      return;
    }
    const rest = this.#held.slice(at + close.length);
    this.#show(parts, "reasoning", textLen(this.#held, at));
    this.#held = rest;
    this.#state = "gap";
  }

  #readGap(): void {
    this.#held = this.#held.trimStart();
    if (this.#held.startsWith(RESPONSE)) {
      this.#held = this.#held.slice(RESPONSE.length);
      this.#state = "response";
    } else if (!RESPONSE.startsWith(this.#held)) this.#state = "content";
  }

  #readResponse(parts: SplitPart[]): void {
    const at = this.#held.indexOf(RESPONSE_END);
    if (at >= 0) {
      const rest = this.#held.slice(at + RESPONSE_END.length);
      this.#show(parts, "content", at);
      this.#held = rest.trimStart();
      this.#state = "gap";
    } else this.#show(parts, "content", this.#held.length - partialTagLen(this.#held, RESPONSE_END));
  }

  #show(parts: SplitPart[], kind: SplitPart["kind"], length: number): void {
    if (length > 0) parts.push({ kind, text: this.#held.slice(0, length) });
    this.#held = this.#held.slice(length);
  }
}

/** Whether a rendered prompt leaves the model inside an opening tag. */
export function endsThinking(prompt: string, { open }: ReasoningTags): boolean {
  return prompt.trimEnd().endsWith(open);
}
