// From a conversation and its options to a generation and the way its text is taken apart.

import type { AnswerOptions } from "../../../chat/answer.js";
import { planAnswer } from "../../../chat/answer-plan.js";
import { chatFormOf } from "../../../chat/chat-form.js";
import { forcedCalls } from "../../../chat/tools/force-call.js";
import { withToolsTold } from "../../../chat/written-tools.js";
import { RequestError } from "../../../core/errors.js";
import type { ChatOptions } from "../../chat-types.js";
import type { PromptMessage, ServedEngine, TextAsker } from "../../served-engine.js";
import type { GenerateOptions, Generation } from "../../types.js";
import { offeredTools } from "./given-tools.js";

export interface StartedChat {
  readonly generation: Generation;
  readonly answer: AnswerOptions;
}

export async function startChat(
  engine: ServedEngine,
  messages: readonly PromptMessage[],
  options: ChatOptions,
  asker: TextAsker,
): Promise<StartedChat> {
  const {
    tools: _,
    toolChoice,
    parallelToolCalls,
    thinkingBudget,
    templateArgs,
    continueFinalMessage,
    ...own
  } = options;
  checkChatOnly(options);
  const form = chatFormOf(engine);
  const { offered, tools, isForced, isParallel } = await offeredTools(options);
  const told = withToolsTold(form.toolPlace, messages, tools);
  const { ids, text, pictures } = await promptIds(engine, told.messages as readonly PromptMessage[], asker, {
    ...(told.tools.length === 0 ? {} : { tools: told.tools }),
    ...(templateArgs === undefined ? {} : { templateArgs }),
    ...(continueFinalMessage === undefined ? {} : { continueFinalMessage }),
  });
  const forced = isForced ? forcedCalls(form.toolFormat!, tools, isParallel, offered) : null;
  const constraint = forced ?? own.constraint ?? null;
  const bounds = { constraint, budget: thinkingBudget ?? null, encode: (tags: string) => encoded(engine, tags) };
  const bound = isForced ? "forced call" : constraint === null ? "no" : "text";
  const plan = planAnswer(form, text, tools, bound, continueFinalMessage === true ? null : bounds);
  const asked: GenerateOptions = { ...own, ...(constraint === null ? {} : { constraint }), ...plan.options };
  return { generation: engine.submit(ids, { ...asked, pictures }), answer: plan.answer };
}

/** One after the other, aside where it takes long: pictures, the template, tokens. */
export async function promptIds(
  engine: ServedEngine,
  messages: readonly PromptMessage[],
  { signal, client = "" }: TextAsker,
  options: Parameters<ServedEngine["renderAside"]>[1],
): Promise<{
  ids: readonly number[];
  text: string;
  pictures: NonNullable<Parameters<ServedEngine["submit"]>[1]["pictures"]>;
}> {
  const seen = await engine.prepareImages(messages, { signal, client });
  const { text, content, pictures } = await engine.renderAside(seen, options, { signal, client });
  const ids = await engine.tokenizeAside(text, { addSpecialTokens: false, content }, signal, client);
  return { ids, text, pictures };
}

function encoded(engine: ServedEngine, text: string): readonly number[] {
  return engine.tokenizer.encode(text, { addSpecialTokens: false });
}

/** What only makes sense for the raw text. */
function checkChatOnly(options: ChatOptions): void {
  const raw = ["n", "promptLogprobs", "skipSpecialTokens"].find((field) => Object.hasOwn(options, field));
  if (raw !== undefined) {
    const value = String((options as Record<string, unknown>)[raw]);
    throw new RequestError("invalid_value", { param: raw, value, expected: "left out: generate(messages) takes it" });
  }
  const { thinkingBudget } = options;
  if (thinkingBudget === undefined || (Number.isSafeInteger(thinkingBudget) && thinkingBudget >= 0)) return;
  const expected = "a whole number of tokens";
  throw new RequestError("invalid_value", { param: "thinkingBudget", value: String(thinkingBudget), expected });
}
