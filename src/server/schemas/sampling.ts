// The sampling fields that chat and text completions share, and their way to the engine's options.

import { z } from "zod";
import { SAMPLING, type SamplingKey, type SamplingParam, type SamplingParams } from "../../core/sampling.js";
import { SPECULATION_METHODS } from "../../core/speculation.js";
import type { GenerateOptions } from "../../engine/types.js";
import type { ConstraintSpec } from "../../grammar/constraint.js";
import { ApiError } from "../http/api-error.js";

const maybe = <T extends z.ZodType>(schema: T) => schema.nullish();

const TABLE = Object.entries(SAMPLING) as [SamplingKey, SamplingParam][];

export const MOST_BIASES = 8192;

/** How a body writes a parameter of each type. */
interface BodyValue {
  readonly number: number;
  readonly integer: number;
  readonly boolean: boolean;
  readonly strings: string | string[];
  readonly tokens: number[];
  readonly bias: Record<string, number>;
}

/** The schema of a sampling parameter, its range and help from the table of core/sampling.ts. */
export function fieldOf<Key extends SamplingKey>(
  key: Key,
  range: { readonly min?: number } = {},
): z.ZodType<BodyValue[(typeof SAMPLING)[Key]["type"]]> {
  const param: SamplingParam = { ...SAMPLING[key], ...range };
  return schemaOf(param).meta({ description: param.help }) as never;
}

function schemaOf({ type, min, max, apiOff }: SamplingParam): z.ZodType {
  switch (type) {
    case "number":
      return z.number().min(min!).max(max!);
    case "integer":
      return z
        .int()
        .min(apiOff ?? min!)
        .max(max!);
    case "boolean":
      return z.boolean();
    case "strings":
      return z.union([z.string().min(1), z.array(z.string().min(1)).max(max!)]);
    case "tokens":
      return z.array(z.int().min(0)).max(max!);
    case "bias":
      // Counted before they are looked at one by one.
      return z.preprocess(
        (bias, context) => {
          const isLong = typeof bias === "object" && bias !== null && Object.keys(bias).length > MOST_BIASES;
          if (!isLong) return bias;
          context.addIssue({ code: "custom", message: `names more than ${MOST_BIASES} tokens` });
          return z.NEVER;
        },
        z.record(z.string().regex(/^\d+$/, "must be a token id"), z.number().min(min!).max(max!)),
      );
  }
}

type TableFields = {
  [Key in SamplingKey as (typeof SAMPLING)[Key]["api"] extends string
    ? (typeof SAMPLING)[Key]["api"]
    : never]: z.ZodOptional<z.ZodNullable<z.ZodType<BodyValue[(typeof SAMPLING)[Key]["type"]]>>>;
};

const tableFields = Object.fromEntries(
  TABLE.filter(([, { api }]) => api !== null).map(([key, { api }]) => [api, maybe(fieldOf(key))]),
) as unknown as TableFields;

/** Of APIs that have an answer in every case. */
export const answerTokens = fieldOf("maxTokens", { min: 1 });

const jsonSchema = z.union([z.string(), z.record(z.string(), z.unknown())]);
const GUIDES = ["json", "regex", "grammar", "choice"];
const choices = z.array(z.string().min(1)).min(1);

export const samplingFields = {
  model: z.string().optional().meta({ description: "A name from /v1/models; optional." }),
  stream: maybe(z.boolean()),
  stream_options: maybe(
    z.strictObject({ include_usage: maybe(z.boolean()), include_obfuscation: z.unknown().optional() }),
  ),
  ...tableFields,
  skip_special_tokens: maybe(z.boolean()),
  priority: maybe(z.int()).meta({
    description: "Lower runs first. Below 0 counts as 0, except for admin keys and servers without keys.",
  }),
  cache_salt: maybe(z.string().max(1000)).meta({
    description: "Only requests with the same salt share cached prefixes.",
  }),
  lora: maybe(z.array(z.strictObject({ id: z.int().min(0), scale: z.number() })).max(1024)).meta({
    description: "Adapters by their ids of GET /lora-adapters, all but one with scale 0 (llama.cpp).",
  }),
  response_format: maybe(
    z.discriminatedUnion("type", [
      z.strictObject({ type: z.literal("text") }),
      z.strictObject({ type: z.literal("json_object"), schema: maybe(z.record(z.string(), z.unknown())) }),
      z.strictObject({
        type: z.literal("json_schema"),
        json_schema: z.strictObject({
          name: z.string().optional(),
          description: z.string().optional(),
          schema: z.record(z.string(), z.unknown()),
          strict: maybe(z.boolean()),
        }),
      }),
    ]),
  ),
  guided_json: maybe(jsonSchema),
  guided_regex: maybe(z.string()),
  guided_grammar: maybe(z.string()),
  guided_choice: maybe(choices),
  structured_outputs: maybe(
    z
      .looseObject({
        json: maybe(jsonSchema),
        regex: maybe(z.string()),
        grammar: maybe(z.string()),
        choice: maybe(choices),
      })
      // Never ignored: an answer that is not bound as it was asked for is wrong.
      .refine(
        (value) => Object.keys(value).every((key) => GUIDES.includes(key)),
        "takes json, regex, grammar or choice",
      ),
  ).meta({ description: "The guided_ fields under their newer name." }),
  repetition_detection: maybe(
    z.strictObject({
      max_pattern_size: fieldOf("loopMaxSize"),
      min_pattern_size: maybe(fieldOf("loopMinSize", { min: 0 })),
      min_count: fieldOf("loopCount"),
    }),
  ).meta({ description: "Ends an answer whose last tokens are one pattern, min_count times in a row." }),
  speculative: maybe(
    z.union([
      z.boolean(),
      z.enum(SPECULATION_METHODS),
      z.strictObject({ method: maybe(z.enum(SPECULATION_METHODS)), tokens: maybe(z.int().min(0)) }),
    ]),
  ).meta({ description: "How tokens are guessed ahead, which changes none of them; false: not at all." }),
  "speculative.n_max": maybe(z.int().min(0)).meta({ description: "As llama.cpp writes speculative.tokens." }),
  // The same under other servers' names.
  repeat_penalty: maybe(fieldOf("repetitionPenalty")),
  json_schema: maybe(jsonSchema),
  regex: maybe(z.string()),
  grammar: maybe(z.string()),
  ebnf: maybe(z.string()),
  use_beam_search: z.literal(false, "beam search is not supported").nullish(),
  // Accepted because clients send them; they change nothing here.
  user: z.unknown().optional(),
  metadata: z.unknown().optional(),
  store: z.unknown().optional(),
  service_tier: z.unknown().optional(),
  safety_identifier: z.unknown().optional(),
  prompt_cache_key: z.unknown().optional(),
};

const samplingObject = z.object(samplingFields);
export type SamplingBody = z.output<typeof samplingObject>;

/** The engine's options for a checked body, all but the prompt, the salt and the logprobs. */
export function samplingOptions(body: SamplingBody): GenerateOptions {
  const options: Record<string, unknown> = {
    skipSpecialTokens: body.skip_special_tokens,
    priority: body.priority,
    constraint: constraintOf(body),
    speculative: speculativeOf(body),
    ...loopOf(body),
  };
  for (const [key, param] of TABLE) {
    const value = param.api === null ? null : body[param.api as keyof SamplingBody];
    if (value !== null && value !== undefined && value !== param.apiOff) options[key] = optionOf(param, value);
  }
  if (body.repeat_penalty != null) options.repetitionPenalty ??= body.repeat_penalty;
  return given(options) as GenerateOptions;
}

/** The engine's form of a value as bodies have it. */
function optionOf({ type }: SamplingParam, value: unknown): unknown {
  if (type === "strings" && typeof value === "string") return [value];
  if (type === "bias") return Object.entries(value as object).map(([id, bias]) => [Number(id), bias]);
  return value;
}

/** Without the fields that were null or absent: the engine's defaults hold for them. */
function given(options: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== null && value !== undefined));
}

/** vLLM's form; it has no smallest size where that is 0. */
function loopOf({ repetition_detection: loop }: SamplingBody): Partial<SamplingParams> {
  if (loop == null) return {};
  const { min_count: loopCount, max_pattern_size: loopMaxSize, min_pattern_size: least } = loop;
  return { loopCount, loopMaxSize, loopMinSize: Math.max(1, least ?? 1) };
}

function speculativeOf(body: SamplingBody): GenerateOptions["speculative"] | null {
  const { speculative, "speculative.n_max": most } = body;
  if (speculative == null) return most == null ? null : { tokens: most };
  if (typeof speculative === "boolean") return most == null || !speculative ? speculative : { tokens: most };
  const asked = typeof speculative === "string" ? { method: speculative } : speculative;
  return given({ ...asked, tokens: (asked as { tokens?: number | null }).tokens ?? most });
}

function constraintOf(body: SamplingBody): ConstraintSpec | null {
  const found: [string, ConstraintSpec][] = [];
  const format = body.response_format;
  if (format?.type === "json_object")
    found.push([
      "response_format",
      { kind: "json_schema", source: JSON.stringify(format.schema ?? { type: "object" }), param: "response_format" },
    ]);
  if (format?.type === "json_schema")
    found.push([
      "response_format",
      {
        kind: "json_schema",
        source: JSON.stringify(format.json_schema.schema),
        param: "response_format.json_schema.schema",
      },
    ]);
  const { guided_json: json, guided_regex: regex, guided_grammar: grammar, guided_choice: choice } = body;
  for (const spec of guidesOf("guided_", { json, regex, grammar, choice })) found.push([spec.param!, spec]);
  const { json_schema: schema, regex: pattern, grammar: gbnf, ebnf } = body;
  for (const spec of guidesOf("", { json: schema, regex: pattern, grammar: gbnf ?? ebnf }))
    found.push([spec.param!, spec]);
  for (const spec of guidesOf("structured_outputs.", body.structured_outputs ?? {})) found.push([spec.param!, spec]);
  if (found.length > 1) {
    const [a, b] = found.map(([name]) => name);
    throw new ApiError("invalid_value", `${a} and ${b} cannot both be given; use one.`, { param: b! });
  }
  return found[0]?.[1] ?? null;
}

function* guidesOf(
  prefix: string,
  { json, regex, grammar, choice }: NonNullable<SamplingBody["structured_outputs"]>,
): Generator<ConstraintSpec> {
  if (json != null) {
    const source = typeof json === "string" ? json : JSON.stringify(json);
    yield { kind: "json_schema", source, param: `${prefix}json` };
  }
  if (regex != null) yield { kind: "regex", source: regex, param: `${prefix}regex` };
  if (grammar != null) yield { kind: "grammar", source: grammar, param: `${prefix}grammar` };
  if (choice != null) {
    const source = choice.map((text) => text.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&")).join("|");
    yield { kind: "regex", source, param: `${prefix}choice` };
  }
}
