// The border: what a caller gave becomes checked SamplingParams and token ids, or a RequestError that names the field.

import { RequestError } from "../../core/errors.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "../../core/sampling.js";
import type { ConstraintSpec } from "../../grammar/constraint.js";
import type { EngineFacts } from "../messages.js";
import type { GenerateOptions } from "../types.js";

/** Fields of GenerateOptions that are not sampling parameters. */
const OTHER_FIELDS = [
  "priority",
  "salt",
  "signal",
  "id",
  "editLogits",
  "constraint",
  "skipSpecialTokens",
  "tools",
  "templateArgs",
];
const MAX_SAMPLES = 128;
const MAX_TOP_LOGPROBS = 64;

type Check = (value: unknown) => string | null; // what was expected, or null when it is right

const number =
  (min: number, max: number, text: string): Check =>
  (value) =>
    typeof value === "number" && value >= min && value <= max ? null : text;
const integer =
  (min: number, max: number): Check =>
  (value) =>
    Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max
      ? null
      : `a whole number from ${min} to ${max}`;
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null ? null : check(value);
const listOf =
  (what: string, isItem: (item: unknown) => boolean): Check =>
  (value) =>
    Array.isArray(value) && value.every(isItem) ? null : `a list of ${what}`;

function checks(vocabSize: number): Record<keyof SamplingParams, Check> {
  const isToken = (id: unknown) => Number.isSafeInteger(id) && (id as number) >= 0 && (id as number) < vocabSize;
  return {
    temperature: number(0, 100, "a number from 0 to 100"),
    topK: integer(0, 2 ** 31 - 1),
    topP: number(0, 1, "a number from 0 to 1"),
    minP: number(0, 1, "a number from 0 to 1"),
    repetitionPenalty: number(0.01, 100, "a number from 0.01 to 100"),
    presencePenalty: number(-100, 100, "a number from -100 to 100"),
    frequencyPenalty: number(-100, 100, "a number from -100 to 100"),
    logitBias: listOf(
      `[token id below ${vocabSize}, number] pairs`,
      (item) => Array.isArray(item) && item.length === 2 && isToken(item[0]) && Number.isFinite(item[1]),
    ),
    seed: integer(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    n: integer(1, MAX_SAMPLES),
    maxTokens: integer(1, 2 ** 24),
    minTokens: integer(0, 2 ** 24),
    stop: listOf("non-empty strings", (item) => typeof item === "string" && item !== ""),
    stopTokenIds: listOf(`token ids below ${vocabSize}`, isToken),
    ignoreEos: (value) => (typeof value === "boolean" ? null : "true or false"),
    logprobs: orNull(integer(0, MAX_TOP_LOGPROBS)),
    promptLogprobs: orNull(integer(0, MAX_TOP_LOGPROBS)),
  };
}

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
  const table = checks(facts.vocabSize);
  const room = contextLimit(facts) - promptLen;
  const params: Record<string, unknown> = { ...SAMPLING_DEFAULTS, ...suggested, maxTokens: room };
  for (const [field, value] of Object.entries(options)) {
    if (OTHER_FIELDS.includes(field)) continue;
    const check = table[field as keyof SamplingParams];
    if (check === undefined) {
      throw new RequestError("unknown_field", {
        param: field,
        known: [...Object.keys(table), ...OTHER_FIELDS].join(", "),
      });
    }
    if (value === undefined) continue;
    const expected = check(value);
    if (expected !== null) throw new RequestError("invalid_value", { param: field, value: show(value), expected });
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

export function checkPrompt(prompt: readonly number[], facts: EngineFacts): Int32Array {
  if (prompt.length === 0) throw new RequestError("empty_prompt");
  if (prompt.length >= facts.maxContext) {
    throw new RequestError("prompt_too_long", { value: prompt.length, limit: facts.maxContext });
  }
  if (prompt.length + 1 > facts.poolTokens) {
    const value = Math.ceil((prompt.length + 1) / facts.pageSize);
    throw new RequestError("prompt_exceeds_pool", { value, limit: facts.poolTokens / facts.pageSize });
  }
  for (let i = 0; i < prompt.length; i++) {
    const id = prompt[i]!;
    if (!Number.isInteger(id) || id < 0 || id >= facts.vocabSize) {
      throw new RequestError("token_out_of_range", { value: String(id), index: i, limit: facts.vocabSize - 1 });
    }
  }
  return Int32Array.from(prompt);
}

const CONSTRAINT_KINDS = ["json", "json_schema", "regex", "grammar"];

/** Its shape only: making a grammar of it may take long, and happens in a thread that can be ended. */
export function checkConstraint(constraint: unknown): ConstraintSpec | null {
  if (constraint === undefined || constraint === null) return null;
  const { kind, source } = constraint as Partial<ConstraintSpec>;
  if (!CONSTRAINT_KINDS.includes(kind as string) || typeof source !== "string") {
    const expected = `{ kind, source }: kind one of ${CONSTRAINT_KINDS.join(", ")}, source a string`;
    throw new RequestError("invalid_value", { param: "constraint", value: show(constraint), expected });
  }
  return constraint as ConstraintSpec;
}

function show(value: unknown): string {
  const text = typeof value === "number" ? String(value) : (JSON.stringify(value) ?? String(value));
  return text.length > 200 ? `${text.slice(0, 200)}...` : text;
}
