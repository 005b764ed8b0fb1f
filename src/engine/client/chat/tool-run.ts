// A conversation with tools that are called: answer, calls, results, answer, until one comes without a call.

import { randomUUID } from "node:crypto";
import { errorFor, RequestError } from "../../../core/errors.js";
import type {
  ChatAnswer,
  ChatMessage,
  ChatOptions,
  ChatRun,
  RunOptions,
  RunPart,
  RunResult,
  ToolCall,
  Usage,
} from "../../chat-types.js";
import type { Engine } from "../../types.js";
import { LiveAnswer } from "../live-answer.js";
import { partText } from "./chat-answer.js";
import type { GivenTools } from "./given-tools.js";

const MAX_ANSWERS = 16;

type ToolPart = Extract<RunPart, { readonly type: "tool-result" | "tool-error" }>;

export class ToolRun extends LiveAnswer<RunPart, RunResult> implements ChatRun {
  readonly id: string;
  readonly #engine: Pick<Engine, "chat">;
  readonly #given: readonly ChatMessage[];
  readonly #options: RunOptions;
  readonly #tools: GivenTools;
  readonly #leave = new AbortController();
  readonly #signal: AbortSignal;
  readonly #parts: RunPart[] = [];
  readonly #whole: Promise<RunResult>;
  #isOver = false;
  #wake: (() => void)[] = [];

  constructor(engine: Pick<Engine, "chat">, messages: string | readonly ChatMessage[], options: RunOptions) {
    super();
    this.id = options.id ?? `run-${randomUUID()}`;
    this.#engine = engine;
    this.#given = typeof messages === "string" ? [{ role: "user", content: messages }] : messages;
    this.#options = options;
    this.#tools = options.tools ?? {};
    const left = this.#leave.signal;
    this.#signal = options.signal === undefined ? left : AbortSignal.any([left, options.signal]);
    this.#whole = this.#run();
    this.#whole
      .catch(() => undefined)
      .finally(() =>
        this.#tell(() => {
          this.#isOver = true;
        }),
      ); // whoever reads it hears of it
  }

  result(): Promise<RunResult> {
    return this.#whole;
  }

  abort(): void {
    this.#leave.abort();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<RunPart> {
    try {
      for (let next = 0; ; ) {
        if (next < this.#parts.length) yield this.#parts[next++]!;
        else if (this.#isOver) break;
        else await new Promise<void>((resolve) => this.#wake.push(resolve));
      }
      await this.#whole; // it rejects where the run failed
    } finally {
      if (!this.#isOver) this.abort();
    }
  }

  protected textOf(part: RunPart): string {
    return partText(part);
  }

  protected wholeText(result: RunResult): string {
    return result.text;
  }

  #tell(change: () => void): void {
    change();
    for (const wake of this.#wake.splice(0)) wake();
  }

  async #run(): Promise<RunResult> {
    const { maxAnswers = MAX_ANSWERS, signal: _, id: __, ...options } = this.#options;
    checkTools(this.#tools, maxAnswers);
    const said: ChatMessage[] = [];
    const answers: ChatAnswer[] = [];
    for (;;) {
      const asked: ChatOptions = { ...options, signal: this.#signal };
      // A tool that had to be called has been: the next answer is free.
      const own = answers.length === 0 ? asked : { ...asked, toolChoice: "auto" as const };
      const generation = this.#engine.chat([...this.#given, ...said], own);
      for await (const part of generation) this.#tell(() => this.#parts.push(part as RunPart));
      const answer = (await generation) as ChatAnswer;
      answers.push(answer);
      said.push(answer.message);
      const { finishReason, text } = answer;
      if (finishReason !== "tool-calls" || answers.length === maxAnswers)
        return { text, answers, messages: said, finishReason, usage: sumOf(answers) };
      said.push(...(await this.#callAll(answer)));
    }
  }

  /** Runs the calls of one answer, all at once; their messages are in the calls' order. */
  async #callAll({ toolCalls, invalidToolCalls }: ChatAnswer): Promise<ChatMessage[]> {
    const valid = toolCalls.map(async (call): Promise<ChatMessage> => {
      const part = await this.#call(call);
      this.#tell(() => this.#parts.push(part));
      return { role: "tool", toolCallId: call.id, name: call.name, content: resultText(part) };
    });
    const messages = await Promise.all(valid);
    if (this.#signal.aborted) throw errorFor("aborted");
    const invalid = invalidToolCalls.map(
      ({ id, name, reason }): ChatMessage => ({ role: "tool", toolCallId: id, name, content: `Error: ${reason}` }),
    );
    return [...messages, ...invalid];
  }

  async #call({ id, name, arguments: args }: ToolCall): Promise<ToolPart> {
    try {
      const result = await this.#tools[name]!.execute!(args as Record<string, unknown>, { id, signal: this.#signal });
      return { type: "tool-result", id, name, result };
    } catch (error) {
      return { type: "tool-error", id, name, error };
    }
  }
}

function resultText(part: ToolPart): string {
  if (part.type === "tool-error")
    return `Error: ${part.error instanceof Error ? part.error.message : String(part.error)}`;
  return typeof part.result === "string" ? part.result : (JSON.stringify(part.result) ?? "null");
}

function checkTools(tools: GivenTools, maxAnswers: unknown): void {
  const missing = Object.entries(tools).find(([, tool]) => typeof tool?.execute !== "function");
  if (missing !== undefined) {
    const expected = "a function: run() calls every tool; chat() gives calls to its caller";
    throw new RequestError("invalid_value", { param: `tools.${missing[0]}.execute`, value: "none", expected });
  }
  if (Number.isSafeInteger(maxAnswers) && (maxAnswers as number) > 0) return;
  const expected = "a whole number from 1";
  throw new RequestError("invalid_value", { param: "maxAnswers", value: String(maxAnswers), expected });
}

function sumOf(answers: readonly ChatAnswer[]): Usage {
  const sum = (field: keyof Usage): number => answers.reduce((total, { usage }) => total + usage[field], 0);
  return {
    promptTokens: sum("promptTokens"),
    completionTokens: sum("completionTokens"),
    cachedTokens: sum("cachedTokens"),
    reasoningTokens: sum("reasoningTokens"),
  };
}
