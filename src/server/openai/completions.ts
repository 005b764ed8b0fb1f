// POST /v1/completions: continues one or several prompts, given as text or token ids.

import type { Context } from "hono";
import type { PositionLogprobs } from "../../core/sampling.js";
import type { GenerateOptions, GenerateResult, Generation, OutputChunk } from "../../engine/types.js";
import { Call } from "../calls/call.js";
import { completionLogprobs, promptLogprobs, textLength } from "../calls/logprobs.js";
import { mergeInOrder } from "../calls/merge.js";
import { checkModel, checkPromptLength, saltOf, tokenizeText } from "../calls/prompt.js";
import { runCall } from "../calls/run-call.js";
import { traceFields, usageOf } from "../calls/usage.js";
import type { AppEnv, ServerContext } from "../context.js";
import { ApiError } from "../http/api-error.js";
import { readJson } from "../http/body.js";
import type { Route } from "../http/route.js";
import { DONE, type ServerEvent } from "../http/sse.js";
import { loraOf } from "../models/lora.js";
import { samplingOptions } from "../schemas/sampling.js";
import { type CompletionBody, completionSchema } from "./completions-schema.js";
import { infillPrompt } from "./infill.js";

export const completions: Route = {
  method: "post",
  path: "/v1/completions",
  summary: "Continue a text",
  body: completionSchema,
  canStream: true,
  handle: async (c) => {
    const body = await readJson(c, completionSchema);
    const context = c.get("server");
    checkBody(context, body);
    const prompts = await promptsOf(c, body);
    const options = optionsOf(c, body);
    const call = new Call(c, "cmpl-");
    if (context.config.logPrompts) c.get("facts").prompt = body.prompt;
    return runCall(c, call, { priority: body.priority, isStream: body.stream === true }, () => {
      const generations = prompts.map(({ ids }, i) => call.start(ids, options, i));
      return new CompletionReply(c, call, body, prompts, generations);
    });
  },
};

function checkBody(context: ServerContext, body: CompletionBody): void {
  checkModel(context, body.model);
  const refuse = (param: string, message: string): never => {
    throw new ApiError("invalid_value", message, { param });
  };
  if (body.best_of != null && body.best_of !== (body.n ?? 1)) refuse("best_of", "best_of is only supported as n.");
  if (body.stream === true && body.prompt_logprobs != null)
    refuse("prompt_logprobs", "prompt_logprobs cannot be streamed.");
}

interface Prompt {
  readonly ids: readonly number[];
  /** As the caller wrote it; null where ids were given. */
  readonly text: string | null;
}

function promptsOf(c: Context<AppEnv>, body: CompletionBody): Promise<Prompt[]> {
  const { prompt } = body;
  const leastAnswer = body.max_tokens === 0 ? 0 : 1;
  const options = body.add_special_tokens == null ? {} : { addSpecialTokens: body.add_special_tokens };
  const list: readonly (string | readonly number[])[] =
    typeof prompt === "string"
      ? [prompt]
      : typeof prompt[0] === "number"
        ? [prompt as number[]]
        : (prompt as (string | number[])[]);
  const idsOf = async (item: string | readonly number[]): Promise<readonly number[]> => {
    if (typeof item === "string" && body.suffix) return infillPrompt(c, item, body.suffix);
    if (typeof item === "string") return tokenizeText(c, item, options, "prompt", leastAnswer);
    if (body.suffix) throw new ApiError("invalid_value", "suffix needs a prompt of text.", { param: "suffix" });
    checkPromptLength(c.get("server"), item.length, "prompt", leastAnswer);
    return item;
  };
  const promptOf = async (item: string | readonly number[]): Promise<Prompt> => ({
    ids: await idsOf(item),
    text: typeof item === "string" ? item : null,
  });
  return Promise.all(list.map(promptOf));
}

function optionsOf(c: Context<AppEnv>, body: CompletionBody): GenerateOptions {
  const options = samplingOptions(body);
  const echoes = body.echo === true && body.logprobs != null;
  return {
    maxTokens: 16, // OpenAI's default for this endpoint
    ...options,
    ...(body.logprobs == null ? {} : { logprobs: body.logprobs }),
    ...(echoes ? { promptLogprobs: Math.max(body.logprobs!, body.prompt_logprobs ?? 0) } : {}),
    ...loraOf(c.get("server"), body.lora),
    salt: saltOf(c, body.cache_salt),
  };
}

interface Echo {
  readonly text: string;
  readonly start: number;
  readonly positions: readonly { readonly id: number; readonly logprobs: PositionLogprobs | null }[];
}

class CompletionReply {
  readonly #c: Context<AppEnv>;
  readonly #call: Call;
  readonly #body: CompletionBody;
  readonly #prompts: readonly Prompt[];
  readonly #generations: readonly Generation[];

  constructor(
    c: Context<AppEnv>,
    call: Call,
    body: CompletionBody,
    prompts: readonly Prompt[],
    generations: readonly Generation[],
  ) {
    this.#c = c;
    this.#call = call;
    this.#body = body;
    this.#prompts = prompts;
    this.#generations = generations;
  }

  async whole(): Promise<Record<string, unknown>> {
    const results = await Promise.all(this.#generations.map((generation) => this.#call.finish(generation)));
    const traces = results.map((result) => result.trace);
    return {
      ...this.#head(),
      choices: results.flatMap((result, i) => this.#choices(result, i)),
      usage: usageOf(traces),
      ...traceFields(this.#c, traces),
    };
  }

  #choices(result: GenerateResult, promptIndex: number): unknown[] {
    const { engine } = this.#c.get("server");
    const echo = this.#echo(promptIndex, result.promptLogprobs);
    return result.samples.map((sample) => {
      const positions = [
        ...echo.positions,
        ...(sample.logprobs ?? []).map((logprobs) => ({ id: logprobs.id, logprobs })),
      ];
      return {
        index: promptIndex * (this.#body.n ?? 1) + sample.index,
        text: echo.text + sample.text,
        logprobs: sample.logprobs === null ? null : completionLogprobs(engine, positions, echo.start),
        finish_reason: sample.finishReason,
        stop_reason: sample.stopReason,
        ...(this.#body.prompt_logprobs == null || result.promptLogprobs === null
          ? {}
          : { prompt_logprobs: promptLogprobs(engine, result.promptLogprobs) }),
      };
    });
  }

  /**
   * The prompt, where the answer repeats it: the caller's own text, not what the tokenizer makes of it and puts around it. Its tokens
   * end where it ends: `start` is where the first of them begins, before the text if there is more of them.
   */
  #echo(promptIndex: number, logprobs: GenerateResult["promptLogprobs"]): Echo {
    if (this.#body.echo !== true) return { text: "", start: 0, positions: [] };
    const { ids, text: written } = this.#prompts[promptIndex]!;
    const { engine } = this.#c.get("server");
    const positions = ids.map((id, i) => ({ id, logprobs: logprobs?.[i] ?? null }));
    const text = written ?? engine.tokenizer.decode(ids);
    return { text, start: text.length - textLength(engine, ids), positions };
  }

  async *events(): AsyncGenerator<ServerEvent> {
    const n = this.#body.n ?? 1;
    const offsets = new Array<number>(n * this.#generations.length).fill(0);
    const hasBegun = this.#generations.map(() => false);
    const sources = this.#generations.map((generation) => this.#call.chunks(generation));
    for await (const { source, value } of mergeInOrder(sources)) {
      if (!hasBegun[source] && this.#body.echo === true) yield* this.#echoes(source, value, offsets);
      hasBegun[source] = true;
      const index = source * n + value.index;
      yield this.#chunk(index, value, offsets[index]!);
      offsets[index]! += value.text.length;
    }
    const traces = await Promise.all(this.#generations.map(async (generation) => (await generation.result()).trace));
    if (this.#body.stream_options?.include_usage === true || this.#c.req.header("x-pagoda-trace") === "1")
      yield { data: { ...this.#head(), choices: [], usage: usageOf(traces), ...traceFields(this.#c, traces) } };
    yield DONE;
  }

  /** Before the first chunk of a prompt's samples, for only then its logprobs are known. */
  *#echoes(promptIndex: number, { promptLogprobs }: OutputChunk, offsets: number[]): Generator<ServerEvent> {
    const { engine } = this.#c.get("server");
    const n = this.#body.n ?? 1;
    const { text, start, positions } = this.#echo(promptIndex, promptLogprobs);
    const logprobs = this.#body.logprobs == null ? null : completionLogprobs(engine, positions, start);
    for (let index = promptIndex * n; index < (promptIndex + 1) * n; index++) {
      offsets[index] = text.length;
      yield { data: { ...this.#head(), choices: [{ index, text, logprobs, finish_reason: null }] } };
    }
  }

  #chunk(index: number, chunk: OutputChunk, offset: number): ServerEvent {
    const { engine } = this.#c.get("server");
    const positions = (chunk.logprobs ?? []).map((logprobs) => ({ id: logprobs.id, logprobs }));
    const choice = {
      index,
      text: chunk.text,
      logprobs: positions.length === 0 ? null : completionLogprobs(engine, positions, offset),
      finish_reason: chunk.finishReason,
      stop_reason: chunk.stopReason,
    };
    return { data: { ...this.#head(), choices: [choice] } };
  }

  #head(): Record<string, unknown> {
    const model = this.#c.get("server").modelNames[0];
    return {
      id: this.#call.id,
      object: "text_completion",
      created: this.#call.createdSeconds,
      model,
      system_fingerprint: null,
    };
  }
}
