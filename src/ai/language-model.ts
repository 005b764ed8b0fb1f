// A language model of the AI SDK that runs here: prompts through the model's own template, tools and thoughts read as its family
// writes them, objects held to their schema while they are written.

import type {
  LanguageModelV3,
  LanguageModelV3CallOptions,
  LanguageModelV3Content,
  LanguageModelV3FinishReason,
  LanguageModelV3FunctionTool,
  LanguageModelV3GenerateResult,
  LanguageModelV3StreamPart,
  LanguageModelV3StreamResult,
  LanguageModelV3Usage,
  SharedV3Warning,
} from "@ai-sdk/provider";
import type { AnswerOptions } from "../chat/answer.js";
import { planAnswer } from "../chat/answer-plan.js";
import { chatFormOf } from "../chat/chat-form.js";
import type { FunctionTool } from "../chat/tool.js";
import { forcedCalls } from "../chat/tools/force-call.js";
import { withToolsTold } from "../chat/written-tools.js";
import { type AnswerEnd, answerParts } from "../engine/client/chat/answer-parts.js";
import { promptIds } from "../engine/client/chat/start-chat.js";
import { asServed, type PromptMessage } from "../engine/served-engine.js";
import type { Engine, GenerateOptions, Generation, RequestTrace } from "../engine/types.js";
import type { ConstraintSpec } from "../grammar/constraint.js";
import { ContentWriter } from "./content-writer.js";
import { messagesOf } from "./prompt.js";
import type { PagodaSettings } from "./settings.js";

interface Started {
  readonly generation: Generation;
  readonly answer: AnswerOptions;
  readonly warnings: SharedV3Warning[];
}

export class PagodaLanguageModel implements LanguageModelV3 {
  readonly specificationVersion = "v3";
  readonly provider = "pagoda";
  readonly modelId: string;
  readonly supportedUrls = {};
  readonly #engine: () => Promise<Engine>;
  readonly #settings: PagodaSettings;

  constructor(modelId: string, engine: () => Promise<Engine>, settings: PagodaSettings) {
    this.modelId = modelId;
    this.#engine = engine;
    this.#settings = settings;
  }

  async doGenerate(options: LanguageModelV3CallOptions): Promise<LanguageModelV3GenerateResult> {
    const { generation, answer, warnings } = await this.#start(options);
    const writer = new ContentWriter();
    const parts = answerParts(generation, generation, answer);
    let next = await parts.next();
    for (; next.done !== true; next = await parts.next()) for (const _ of writer.take(next.value.part));
    for (const _ of writer.end());
    const content: LanguageModelV3Content[] = writer.content;
    return { content, ...endOf(next.value), warnings, response: this.#about(generation) };
  }

  async doStream(options: LanguageModelV3CallOptions): Promise<LanguageModelV3StreamResult> {
    const started = await this.#start(options);
    const parts = this.#stream(started);
    const stream = new ReadableStream<LanguageModelV3StreamPart>({
      pull: async (controller) => {
        try {
          const next = await parts.next();
          if (next.done === true) controller.close();
          else controller.enqueue(next.value);
        } catch (error) {
          controller.enqueue({ type: "error", error });
          controller.close();
        }
      },
      cancel: () => started.generation.abort(),
    });
    return { stream };
  }

  async *#stream({ generation, answer, warnings }: Started): AsyncGenerator<LanguageModelV3StreamPart> {
    yield { type: "stream-start", warnings };
    yield { type: "response-metadata", ...this.#about(generation) };
    const writer = new ContentWriter();
    const parts = answerParts(generation, generation, answer);
    let next = await parts.next();
    for (; next.done !== true; next = await parts.next()) yield* writer.take(next.value.part);
    yield* writer.end();
    yield { type: "finish", ...endOf(next.value) };
  }

  async #start(call: LanguageModelV3CallOptions): Promise<Started> {
    const engine = asServed(await this.#engine());
    const settings = { ...this.#settings, ...(call.providerOptions?.pagoda as PagodaSettings | undefined) };
    const { templateArgs, pooling: _, ...own } = settings;
    const warnings: SharedV3Warning[] = [];
    const tools = toolsOf(call, warnings);
    const form = chatFormOf(engine);
    const format = form.toolFormat;
    const choice = call.toolChoice ?? { type: "auto" };
    const isForced = tools.length > 0 && format !== null && (choice.type === "required" || choice.type === "tool");
    const constraint = isForced ? forcedCalls(format, tools, choice.type === "required") : formatOf(call);
    const signal = call.abortSignal;
    const told = withToolsTold(form.toolPlace, messagesOf(call.prompt), tools);
    const { text, ids, pictures } = await promptIds(
      engine,
      told.messages as readonly PromptMessage[],
      { signal },
      {
        ...(told.tools.length === 0 ? {} : { tools: told.tools }),
        ...(templateArgs === undefined ? {} : { templateArgs }),
      },
    );
    const bound = isForced ? "forced call" : constraint === null ? "no" : "text";
    const plan = planAnswer(form, text, tools, bound, {
      constraint: constraint ?? own.constraint ?? null,
      budget: null,
      encode: (tags) => engine.tokenizer.encode(tags, { addSpecialTokens: false }),
    });
    const options = given({
      ...own,
      ...(pictures.length === 0 ? {} : { pictures }),
      maxTokens: call.maxOutputTokens,
      temperature: call.temperature,
      topP: call.topP,
      topK: call.topK,
      presencePenalty: call.presencePenalty,
      frequencyPenalty: call.frequencyPenalty,
      stop: call.stopSequences,
      seed: call.seed,
      signal: call.abortSignal,
      constraint: constraint ?? own.constraint,
      ...plan.options,
    });
    return { generation: engine.submit(ids, options), answer: plan.answer, warnings };
  }

  #about(generation: Generation): { id: string; modelId: string; timestamp: Date } {
    return { id: generation.id, modelId: this.modelId, timestamp: new Date() };
  }
}

/** The tools that may be called. */
function toolsOf(call: LanguageModelV3CallOptions, warnings: SharedV3Warning[]): FunctionTool[] {
  const choice = call.toolChoice;
  if (choice?.type === "none") return [];
  const tools = (call.tools ?? []).filter((tool): tool is LanguageModelV3FunctionTool => {
    if (tool.type !== "function") warnings.push({ type: "unsupported", feature: `provider tool ${tool.id}` });
    return tool.type === "function";
  });
  return tools
    .filter((tool) => choice?.type !== "tool" || tool.name === choice.toolName)
    .map(({ name, description, inputSchema }) => ({
      type: "function",
      function: {
        name,
        parameters: inputSchema as Record<string, unknown>,
        ...(description === undefined ? {} : { description }),
      },
    }));
}

function formatOf({ responseFormat }: LanguageModelV3CallOptions): ConstraintSpec | null {
  if (responseFormat?.type !== "json") return null;
  const schema = responseFormat.schema ?? { type: "object" };
  return { kind: "json_schema", source: JSON.stringify(schema), param: "schema" };
}

function given(options: Record<string, unknown>): GenerateOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as GenerateOptions;
}

function endOf({ finishReason, hasCalls, reasoningTokens, trace }: AnswerEnd): {
  finishReason: LanguageModelV3FinishReason;
  usage: LanguageModelV3Usage;
} {
  const unified = hasCalls && finishReason === "stop" ? "tool-calls" : finishReason === "length" ? "length" : "stop";
  return { finishReason: { unified, raw: finishReason }, usage: usageOf(trace, reasoningTokens) };
}

function usageOf(trace: RequestTrace, reasoning: number): LanguageModelV3Usage {
  return {
    inputTokens: {
      total: trace.promptTokens,
      noCache: trace.promptTokens - trace.cachedTokens,
      cacheRead: trace.cachedTokens,
      cacheWrite: undefined,
    },
    outputTokens: { total: trace.completionTokens, text: trace.completionTokens - reasoning, reasoning },
  };
}
