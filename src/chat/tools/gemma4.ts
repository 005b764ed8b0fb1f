// Gemma 4: <|tool_call>call:name{key:<|"|>text<|"|>,n:1,l:[..]}<tool_call|>. Keys stand bare, and strings between markers of their own.

import type { CallSink } from "./call-sink.js";
import { type CallBody, SectionParser, type Taken } from "./section-parser.js";
import { firstTag, partialTagLen, TagWatch, type Watch } from "./tags.js";
import type { ToolFormat } from "./tool-format.js";

const OPEN = "<|tool_call>";
const CLOSE = "<tool_call|>";
const QUOTE = '<|"|>';
/** A name and the white space around it are bounded: until they end, they are looked at again with every token. */
const NAME = /^\s{0,64}call:\s{0,64}([^{\s]{0,256})\s{0,64}\{/;
const PART_OF_NAME = /^\s{0,64}(?:c|ca|cal|call|call:\s{0,64}[^{\s]{0,256}\s{0,64})?$/;
/** Ends a word, a number or a bare key. */
const AFTER_WORD: Watch = { sees: (text) => /[^\w$.+-]/.test(text) };

class GemmaBody implements CallBody {
  #state: "name" | "value" | "string" | "tail" = "name";
  #depth = 0;

  take(text: string, sink: CallSink): Taken {
    switch (this.#state) {
      case "name":
        return this.#takeName(text, sink);
      case "value":
        return this.#takeValue(text, sink);
      case "string":
        return this.#takeString(text, sink);
      case "tail": {
        const found = firstTag(text, [CLOSE, OPEN]);
        if (found === null) return { rest: text, next: "wait", until: new TagWatch([CLOSE, OPEN], text) };
        return { rest: text.slice(found.tag === CLOSE ? found.at + CLOSE.length : found.at), next: "done" };
      }
    }
  }

  #takeName(text: string, sink: CallSink): Taken {
    const name = NAME.exec(text);
    if (name !== null) {
      sink.call(name[1]!);
      sink.arguments("{");
      this.#depth = 1;
      this.#state = "value";
      return { rest: text.slice(name[0].length), next: "go" };
    }
    return { rest: text, next: PART_OF_NAME.test(text) ? "wait" : "done" };
  }

  /** Everything but strings: punctuation, bare keys, numbers and words. */
  #takeValue(text: string, sink: CallSink): Taken {
    let at = 0;
    let json = "";
    while (at < text.length && this.#depth > 0) {
      if (text.startsWith(QUOTE, at)) {
        sink.arguments(`${json}"`);
        this.#state = "string";
        return { rest: text.slice(at + QUOTE.length), next: "go" };
      }
      const char = text[at]!;
      if (char === "<" && QUOTE.startsWith(text.slice(at))) break;
      if (/[\w$-]/.test(char)) {
        const word = /^[\w$.+-]+/.exec(text.slice(at))![0];
        if (at + word.length === text.length) {
          // It may go on, or turn out to be a key.
          sink.arguments(json);
          return { rest: text.slice(at), next: "wait", until: AFTER_WORD };
        }
        json += text[at + word.length] === ":" ? JSON.stringify(word) : value(word);
        at += word.length;
        continue;
      }
      if (char === "{" || char === "[") this.#depth++;
      else if (char === "}" || char === "]") this.#depth--;
      json += char;
      at++;
    }
    sink.arguments(json);
    if (this.#depth > 0) return { rest: text.slice(at), next: "wait" };
    this.#state = "tail";
    return { rest: text.slice(at), next: "go" };
  }

  #takeString(text: string, sink: CallSink): Taken {
    const end = text.indexOf(QUOTE);
    if (end >= 0) {
      sink.arguments(`${escaped(text.slice(0, end))}"`);
      this.#state = "value";
      return { rest: text.slice(end + QUOTE.length), next: "go" };
    }
    const sure = text.length - partialTagLen(text, QUOTE);
    sink.arguments(escaped(text.slice(0, sure)));
    return { rest: text.slice(sure), next: "wait" };
  }
}

const escaped = (text: string): string => JSON.stringify(text).slice(1, -1);

function value(word: string): string {
  if (word === "None") return "null";
  return /^(?:true|false|null|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)$/.test(word) ? word : JSON.stringify(word);
}

export const GEMMA4: ToolFormat = {
  name: "gemma4",
  needsSpecialTokens: true,
  shape: null,
  createParser: () => new SectionParser(OPEN, () => new GemmaBody()),
};
