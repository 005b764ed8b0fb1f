// Parts an answer into what a reasoning model thinks between <think> tags and what it says. Works on text as it comes.

const OPEN = "<think>";
const CLOSE = "</think>";

export interface AnswerPart {
  readonly kind: "reasoning" | "content";
  readonly text: string;
}

export class ReasoningSplitter {
  /** gap: white space after the closing tag, dropped. */
  #state: "start" | "reasoning" | "gap" | "content";
  #held = "";
  #hasThought = false;

  /** `isThinking`: the prompt ended inside an opening tag. */
  constructor(isThinking: boolean) {
    this.#state = isThinking ? "reasoning" : "start";
  }

  push(text: string): AnswerPart[] {
    const parts: AnswerPart[] = [];
    this.#held += text;
    if (this.#state === "start") this.#readStart();
    if (this.#state === "reasoning") this.#readReasoning(parts);
    if (this.#state === "gap") {
      this.#held = this.#held.trimStart();
      if (this.#held !== "") this.#state = "content";
    }
    if (this.#state === "content") this.#show(parts, "content", this.#held.length);
    return parts;
  }

  flush(): AnswerPart[] {
    const parts: AnswerPart[] = [];
    this.#show(parts, this.#state === "reasoning" ? "reasoning" : "content", this.#held.length);
    return parts;
  }

  #readStart(): void {
    const rest = this.#held.trimStart();
    if (rest.startsWith(OPEN)) {
      this.#held = rest.slice(OPEN.length);
      this.#state = "reasoning";
    } else if (!OPEN.startsWith(rest)) this.#state = "content";
  }

  #readReasoning(parts: AnswerPart[]): void {
    if (!this.#hasThought) this.#held = this.#held.trimStart(); // the line break after the tag
    this.#hasThought ||= this.#held !== "";
    const at = this.#held.indexOf(CLOSE);
    if (at < 0) {
      // The tag may be half here, and white space before it belongs to it.
      let sure = this.#held.length;
      for (let n = Math.min(sure, CLOSE.length - 1); n > 0; n--) {
        if (this.#held.endsWith(CLOSE.slice(0, n))) {
          sure -= n;
          break;
        }
      }
      this.#show(parts, "reasoning", this.#held.slice(0, sure).trimEnd().length);
      return;
    }
    const rest = this.#held.slice(at + CLOSE.length);
    this.#show(parts, "reasoning", this.#held.slice(0, at).trimEnd().length);
    this.#held = rest;
    this.#state = "gap";
  }

  #show(parts: AnswerPart[], kind: AnswerPart["kind"], length: number): void {
    if (length > 0) parts.push({ kind, text: this.#held.slice(0, length) });
    this.#held = this.#held.slice(length);
  }
}

/** Whether a rendered prompt leaves the model inside an opening tag. */
export function endsThinking(prompt: string): boolean {
  return prompt.trimEnd().endsWith(OPEN);
}
