// The border: what a caller gave becomes a call as it crosses to the engine, every field checked here and trusted behind it, or a
// RequestError that names the field.

import { randomUUID } from "node:crypto";
import type { AdapterRef } from "../../adapters/adapter.js";
import { SALT_END } from "../../cache/page-hash.js";
import { RequestError } from "../../core/errors.js";
import {
  SAMPLING,
  SAMPLING_DEFAULTS,
  type SamplingKey,
  type SamplingParam,
  type SamplingParams,
} from "../../core/sampling.js";
import { isPredictor, type PredictorMethod, SPECULATION_METHODS, type Speculation } from "../../core/speculation.js";
import { suggest } from "../../core/suggest.js";
import type { ConstraintSpec, ThoughtsSpec } from "../../grammar/constraint.js";
import type { AddMessage, EngineFacts, RequestKind, ResumedSample, TextFields } from "../messages.js";
import type { AdapterChoice, GenerateOptions } from "../types.js";

/** Fields of GenerateOptions that are not sampling parameters. */
const OTHER_FIELDS = [
  "priority",
  "salt",
  "adapter",
  "client",
  "signal",
  "id",
  "editLogits",
  "constraint",
  "speculative",
  "skipSpecialTokens",
  "pictures",
];
/**
 * Sampling parameters of one request. `suggested` are the model's own defaults; maxTokens not given is what the context leaves.
 */
export function checkSampling(
  options: GenerateOptions,
  suggested: Partial<SamplingParams>,
  facts: EngineFacts,
  promptLen: number,
  freshSeed: () => number,
): SamplingParams {
  const room = contextLimit(facts) - promptLen;
  const params: Record<string, unknown> = { ...SAMPLING_DEFAULTS, ...suggested, maxTokens: room };
  for (const [field, value] of Object.entries(options)) {
    if (OTHER_FIELDS.includes(field)) continue;
    if (!Object.hasOwn(SAMPLING, field)) {
      throw new RequestError("unknown_field", {
        param: field,
        known: suggest(field, [...Object.keys(SAMPLING), ...OTHER_FIELDS]),
      });
    }
    if (value === undefined) continue;
    const param = SAMPLING[field as SamplingKey];
    if (!isValidFor(param, value, facts.vocabSize)) {
      const expected = expectationOf(param, facts.vocabSize);
      throw new RequestError("invalid_value", { param: field, value: show(value), expected });
    }
    params[field] = value;
  }
  params.maxTokens = Math.min(params.maxTokens as number, room);
  params.seed ??= freshSeed();
  if ((params.minTokens as number) > (params.maxTokens as number)) {
    throw new RequestError("invalid_value", {
      param: "minTokens",
      value: String(params.minTokens),
      expected: `at most maxTokens (${params.maxTokens}: what was asked for, or what the context leaves)`,
    });
  }
  return params as unknown as SamplingParams;
}

/** Longest sequence that both the model and the pool can hold. */
export function contextLimit(facts: EngineFacts): number {
  return Math.min(facts.maxContext, facts.poolTokens);
}

/** `leastAnswer`: tokens for which there must be room after it. */
export function checkPrompt(prompt: readonly number[], facts: EngineFacts, leastAnswer: 0 | 1): Int32Array {
  if (!ArrayBuffer.isView(prompt)) checkList("prompt", prompt, "a text, or a list of token ids");
  if (prompt.length === 0) throw new RequestError("empty_prompt");
  if (prompt.length + leastAnswer > facts.maxContext) {
    throw new RequestError("context_length_exceeded", { value: prompt.length, limit: facts.maxContext });
  }
  if (prompt.length + leastAnswer > facts.poolTokens) {
    const value = Math.ceil((prompt.length + leastAnswer) / facts.pageSize);
    throw new RequestError("prompt_exceeds_pool", { value, limit: facts.poolTokens / facts.pageSize });
  }
  return checkIds(prompt, facts);
}

export function checkList(param: string, value: unknown, expected: string): void {
  if (!Array.isArray(value)) throw new RequestError("invalid_value", { param, value: show(value), expected });
}

/** A text that is embedded or scored: no answer follows, so it may fill the context. */
export function checkText(ids: readonly number[], facts: EngineFacts): Int32Array {
  if (ids.length === 0) throw new RequestError("empty_prompt", { param: "input" });
  const limit = contextLimit(facts);
  if (ids.length > limit) throw new RequestError("text_too_long", { value: ids.length, limit });
  return checkIds(ids, facts);
}

function checkIds(prompt: readonly number[], facts: EngineFacts): Int32Array {
  for (let i = 0; i < prompt.length; i++) {
    const id = prompt[i]!;
    if (!Number.isInteger(id) || id < 0 || id >= facts.vocabSize) {
      throw new RequestError("token_out_of_range", { value: String(id), index: i, limit: facts.vocabSize - 1 });
    }
  }
  return Int32Array.from(prompt);
}

/** What another engine gave of a sample must be tokens of this model, and leave at least one to give. */
export function checkResumed({ index, tokens }: ResumedSample, message: AddMessage, facts: EngineFacts): void {
  const { n, maxTokens } = message.sampling;
  const isValid =
    message.kind === "generate" &&
    n === 1 &&
    Number.isSafeInteger(index) &&
    index >= 0 &&
    tokens.length < maxTokens &&
    tokens.every((id) => id >= 0 && id < facts.vocabSize);
  if (isValid) return;
  const value = `${tokens.length} tokens of sample ${index} of ${n}`;
  throw new RequestError("invalid_value", {
    param: "resumed",
    value,
    expected: `fewer than ${maxTokens} token ids below ${facts.vocabSize}, of one sample`,
  });
}

const CONSTRAINT_KINDS = ["json", "json_schema", "regex", "grammar", "tool_calls", "any"];

/** Its shape only: making a grammar of it may take long, and happens in a thread that can be ended. */
export function checkConstraint(constraint: unknown): ConstraintSpec | null {
  if (constraint === undefined || constraint === null) return null;
  const { kind, source, thoughts } = constraint as Partial<ConstraintSpec>;
  if (thoughts !== undefined) checkThoughts(thoughts);
  if (!CONSTRAINT_KINDS.includes(kind as string) || typeof source !== "string") {
    const expected = `{ kind, source }: kind one of ${CONSTRAINT_KINDS.join(", ")}, source a string`;
    throw new RequestError("invalid_value", { param: "constraint", value: show(constraint), expected });
  }
  return constraint as ConstraintSpec;
}

function checkThoughts(thoughts: unknown): void {
  const { begin, open, close, after, budget } = (thoughts ?? {}) as Partial<ThoughtsSpec>;
  const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
  const areIds = (value: unknown): boolean => Array.isArray(value) && value.every(isCount);
  const isWhole =
    ["open", "maybe", "always"].includes(begin as string) && areIds(open) && isCount(close) && areIds(after);
  if (isWhole && (begin === "open" || open!.length > 0) && (budget === null || isCount(budget))) return;
  const expected =
    "{ begin: open, maybe or always, open: token ids, close: a token id, after: token ids, budget: a count or null }";
  throw new RequestError("invalid_value", { param: "constraint.thoughts", value: show(thoughts), expected });
}

/** null: as the engine does. */
export function checkSpeculation(value: unknown, loaded: PredictorMethod | null = null): Speculation | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "boolean") return { method: value ? "auto" : "off" };
  const asked = typeof value === "string" ? { method: value } : value;
  const { method = "auto", tokens, prediction, ...rest } = asked as Readonly<Record<string, unknown>>;
  const isCount = tokens === undefined || (Number.isSafeInteger(tokens) && (tokens as number) >= 0);
  const known = SPECULATION_METHODS.filter((each) => !isPredictor(each) || each === loaded);
  const isMethod = (known as readonly unknown[]).includes(method);
  const isText = prediction === undefined || (Array.isArray(prediction) && prediction.every(Number.isSafeInteger));
  const isKnown = isMethod && isCount && isText && Object.keys(rest).length === 0;
  if (typeof asked === "object" && isKnown) return asked as Speculation;
  const methods = known.join(", ");
  const expected = `true, false, or { method, tokens, prediction }: method one of ${methods}, tokens a whole number, prediction a text or token ids`;
  throw new RequestError("invalid_value", { param: "speculative", value: show(value), expected });
}

/** What a value must be, in words. */
function expectationOf(param: SamplingParam, vocabSize: number): string {
  const { type, min, max } = param;
  const range = min === undefined ? "" : ` from ${min} to ${max}`;
  switch (type) {
    case "number":
      return `a number${range}`;
    case "integer":
      return `a whole number${range}`;
    case "boolean":
      return "true or false";
    case "strings":
      return `a list of non-empty strings, at most ${max}`;
    case "tokens":
      return `a list of token ids below ${vocabSize}, at most ${max}`;
    case "bias":
      return `a list of [token id below ${vocabSize}, number${range}] pairs`;
  }
}

/** Whether a caller's value is one that the parameter can have. */
function isValidFor(param: SamplingParam, value: unknown, vocabSize: number): boolean {
  const { type, min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY } = param;
  const isNumber = (x: unknown) => typeof x === "number" && x >= min && x <= max;
  const isToken = (x: unknown) => Number.isSafeInteger(x) && (x as number) >= 0 && (x as number) < vocabSize;
  if (value === null) return param.isNullable === true;
  switch (type) {
    case "number":
      return isNumber(value);
    case "integer":
      return Number.isSafeInteger(value) && isNumber(value);
    case "boolean":
      return typeof value === "boolean";
    case "strings":
      return Array.isArray(value) && value.length <= max && value.every((x) => typeof x === "string" && x !== "");
    case "tokens":
      return Array.isArray(value) && value.length <= max && value.every(isToken);
    case "bias":
      return (
        Array.isArray(value) &&
        value.every((x) => Array.isArray(x) && x.length === 2 && isToken(x[0]) && isNumber(x[1]))
      );
  }
}

function show(value: unknown): string {
  const text = typeof value === "number" ? String(value) : (JSON.stringify(value) ?? String(value));
  return text.length > 200 ? `${text.slice(0, 200)}...` : text;
}

/** What the engine itself brings to the check of a call. */
export interface CallBounds {
  readonly facts: EngineFacts;
  /** The model's own sampling. */
  readonly suggested: Partial<SamplingParams>;
  /** The engine runs in a thread of its own. */
  readonly isRemote: boolean;
  /** Throws for an adapter that nobody knows. */
  adapterOf(choice: AdapterChoice): AdapterRef;
  /** A call of this id is under way. */
  isTaken(callId: string): boolean;
  /** For a call whose caller chose no seed. */
  freshSeed(): number;
}

export function addMessage(
  bounds: CallBounds,
  kind: RequestKind,
  ids: readonly number[],
  options: GenerateOptions,
  text: TextFields = {},
): AddMessage {
  const { facts, suggested } = bounds;
  const leastAnswer = options.maxTokens === 0 ? 0 : 1;
  const prompt = kind === "generate" ? checkPrompt(ids, facts, leastAnswer) : checkText(ids, facts);
  const sampling = checkSampling(options, suggested, facts, prompt.length, () => bounds.freshSeed());
  const { priority = 0, salt = "", client = "", editLogits } = options;
  const constraint = checkConstraint(options.constraint);
  const speculation = checkSpeculation(options.speculative, facts.predictor);
  if (!Number.isSafeInteger(priority)) throw invalid("priority", priority, "a whole number");
  if (typeof salt !== "string" || salt.includes(SALT_END))
    throw invalid("salt", salt, "a string without the character NUL");
  if (typeof client !== "string") throw invalid("client", client, "a string");
  if (editLogits !== undefined && bounds.isRemote) {
    throw invalid(
      "editLogits",
      "a function",
      "absent: functions cannot cross to the engine's thread; create the engine with worker: false",
    );
  }
  const callId = options.id ?? `req-${randomUUID()}`;
  if (bounds.isTaken(callId)) throw invalid("id", callId, "unique among running requests");
  const asked = { prompt, sampling, priority, salt, client, constraint };
  const adapter = options.adapter === undefined ? {} : { adapter: bounds.adapterOf(options.adapter) };
  const spoken = speculation === null ? {} : { speculation };
  return { type: "add", callId, kind, ...text, ...asked, ...adapter, ...spoken, arrivalMs: now() };
}

function invalid(param: string, value: unknown, expected: string): RequestError {
  return new RequestError("invalid_value", { param, value: String(value), expected });
}

/** Milliseconds on a clock that all threads of the process share. */
function now(): number {
  return performance.timeOrigin + performance.now();
}
