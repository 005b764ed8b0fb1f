// The output items of a response as they grow, and the event of each change, in the order OpenAI sends them:
//
//   output_item.added -> content_part.added -> *.delta ... -> *.done -> content_part.done -> output_item.done

import { randomUUID } from "node:crypto";
import type { FinishReason } from "../../core/request.js";
import type { Engine } from "../../engine/types.js";
import { chatLogprobs } from "../calls/logprobs.js";
import type { TurnPart } from "../calls/turn.js";
import type { InputItem } from "./responses-schema.js";

export type Item = Record<string, unknown> & { id: string; type: "message" | "reasoning" | "function_call" };
export interface ResponseEvent {
  readonly type: string;
  readonly fields: Record<string, unknown>;
}

export class ResponseWriter {
  readonly items: Item[] = [];
  readonly #engine: Engine;
  readonly #names: ReadonlyMap<string, { name: string; namespace: string }>;
  #text = "";
  #logprobs: unknown[] = [];
  #isOpen = false;

  /** `names`: what the client calls a tool, where that is not what the model calls it. */
  constructor(engine: Engine, names: ReadonlyMap<string, { name: string; namespace: string }> = new Map()) {
    this.#engine = engine;
    this.#names = names;
  }

  *take({ delta, logprobs }: TurnPart): Generator<ResponseEvent> {
    if (delta.reasoning_content !== undefined) {
      yield* this.#open("reasoning", () => ({
        id: `rs_${randomUUID()}`,
        type: "reasoning",
        summary: [],
        content: [],
        status: "in_progress",
      }));
      this.#text += delta.reasoning_content;
      yield this.#at("response.reasoning_text.delta", { content_index: 0, delta: delta.reasoning_content });
    }
    if (delta.content !== undefined && (delta.content !== "" || logprobs.length > 0)) {
      yield* this.#open("message", emptyMessage);
      const entries = this.#entriesOf(logprobs);
      this.#text += delta.content;
      this.#logprobs.push(...entries);
      yield this.#at("response.output_text.delta", { content_index: 0, delta: delta.content, logprobs: entries });
    }
    for (const { id, function: fn } of delta.tool_calls ?? []) {
      if (id !== undefined) {
        yield* this.end("stop");
        const make = (): Item => ({
          id: `fc_${randomUUID()}`,
          type: "function_call",
          call_id: id,
          ...(this.#names.get(fn.name!) ?? { name: fn.name }),
          arguments: "",
          status: "in_progress",
        });
        yield* this.#open("function_call", make);
      }
      if (fn.arguments === "") continue;
      this.#text += fn.arguments;
      yield this.#at("response.function_call_arguments.delta", { delta: fn.arguments });
    }
  }

  /** Closes the item under way. */
  *end(finish: FinishReason): Generator<ResponseEvent> {
    const item = this.items.at(-1);
    if (item === undefined || !this.#isOpen) return;
    this.#isOpen = false;
    const text = this.#text;
    item.status = finish === "length" ? "incomplete" : "completed";
    if (item.type === "function_call") {
      item.arguments = text || "{}";
      yield this.#at("response.function_call_arguments.done", { name: item.name, arguments: item.arguments });
    } else {
      const part = this.#partOf(item.type, text);
      item.content = [part];
      const logprobs = item.type === "message" ? { logprobs: this.#logprobs } : {};
      const kind = item.type === "message" ? "output_text" : "reasoning_text";
      yield this.#at(`response.${kind}.done`, { content_index: 0, text, ...logprobs });
      yield this.#at("response.content_part.done", { content_index: 0, part });
    }
    yield { type: "response.output_item.done", fields: { output_index: this.items.length - 1, item: { ...item } } };
  }

  /** An answer without a word is a message without a word. */
  *endAll(finish: FinishReason): Generator<ResponseEvent> {
    if (!this.items.some((item) => item.type !== "reasoning")) {
      yield* this.end(finish);
      yield* this.#open("message", emptyMessage);
    }
    yield* this.end(finish);
  }

  *#open(type: Item["type"], make: () => Item): Generator<ResponseEvent> {
    if (this.#isOpen && this.items.at(-1)!.type === type) return;
    yield* this.end("stop");
    const item = make();
    this.items.push(item);
    this.#isOpen = true;
    this.#text = "";
    this.#logprobs = [];
    yield { type: "response.output_item.added", fields: { output_index: this.items.length - 1, item: { ...item } } };
    if (type !== "function_call")
      yield this.#at("response.content_part.added", { content_index: 0, part: this.#partOf(type, "") });
  }

  #partOf(type: Item["type"], text: string): Record<string, unknown> {
    if (type === "reasoning") return { type: "reasoning_text", text };
    return { type: "output_text", text, annotations: [], logprobs: this.#logprobs };
  }

  #entriesOf(logprobs: TurnPart["logprobs"]): unknown[] {
    if (logprobs.length === 0) return [];
    return chatLogprobs(this.#engine, logprobs).content;
  }

  #at(type: string, fields: Record<string, unknown>): ResponseEvent {
    const index = this.items.length - 1;
    return { type, fields: { item_id: this.items[index]!.id, output_index: index, ...fields } };
  }
}

function emptyMessage(): Item {
  return { id: `msg_${randomUUID()}`, type: "message", role: "assistant", status: "in_progress", content: [] };
}

/** Output items as a later request would send them back. */
export function asInput(items: readonly Item[]): InputItem[] {
  return items as unknown as InputItem[];
}
