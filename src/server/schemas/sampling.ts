// The sampling fields that chat and text completions share, and their way to the engine's options.

import { z } from "zod";
import type { GenerateOptions } from "../../engine/types.js";
import type { ConstraintSpec } from "../../grammar/constraint.js";
import { ApiError } from "../api-error.js";

const maybe = <T extends z.ZodType>(schema: T) => schema.nullish();

export const samplingFields = {
  model: z.string().optional().meta({ description: "A name from /v1/models; may be left out." }),
  stream: maybe(z.boolean()),
  stream_options: maybe(
    z.strictObject({ include_usage: maybe(z.boolean()), include_obfuscation: z.unknown().optional() }),
  ),
  max_tokens: maybe(z.int().min(1)),
  temperature: maybe(z.number().min(0).max(100)),
  top_p: maybe(z.number().min(0).max(1)),
  top_k: maybe(z.int().min(-1)).meta({ description: "0 or -1: off" }),
  min_p: maybe(z.number().min(0).max(1)),
  presence_penalty: maybe(z.number().min(-2).max(2)),
  frequency_penalty: maybe(z.number().min(-2).max(2)),
  repetition_penalty: maybe(z.number().min(0.01).max(100)),
  logit_bias: maybe(z.record(z.string().regex(/^\d+$/, "must be a token id"), z.number().min(-100).max(100))),
  seed: maybe(z.int()),
  n: maybe(z.int().min(1).max(128)),
  stop: maybe(z.union([z.string().min(1), z.array(z.string().min(1)).max(64)])),
  stop_token_ids: maybe(z.array(z.int().min(0))),
  min_tokens: maybe(z.int().min(0)),
  ignore_eos: maybe(z.boolean()),
  skip_special_tokens: maybe(z.boolean()),
  prompt_logprobs: maybe(z.int().min(0).max(20)),
  priority: maybe(z.int()).meta({ description: "Lower runs first." }),
  cache_salt: maybe(z.string().max(1000)).meta({
    description: "Only requests with the same salt share cached prefixes.",
  }),
  response_format: maybe(
    z.discriminatedUnion("type", [
      z.strictObject({ type: z.literal("text") }),
      z.strictObject({ type: z.literal("json_object") }),
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
  guided_json: maybe(z.union([z.string(), z.record(z.string(), z.unknown())])),
  guided_regex: maybe(z.string()),
  guided_grammar: maybe(z.string()),
  guided_choice: maybe(z.array(z.string().min(1)).min(1)),
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
  const stop = typeof body.stop === "string" ? [body.stop] : body.stop;
  const bias = body.logit_bias
    ? Object.entries(body.logit_bias).map(([id, value]) => [Number(id), value] as const)
    : null;
  const constraint = constraintOf(body);
  return given({
    maxTokens: body.max_tokens,
    temperature: body.temperature,
    topP: body.top_p,
    topK: body.top_k === -1 ? 0 : body.top_k,
    minP: body.min_p,
    presencePenalty: body.presence_penalty,
    frequencyPenalty: body.frequency_penalty,
    repetitionPenalty: body.repetition_penalty,
    logitBias: bias,
    seed: body.seed,
    n: body.n,
    stop,
    stopTokenIds: body.stop_token_ids,
    minTokens: body.min_tokens,
    ignoreEos: body.ignore_eos,
    skipSpecialTokens: body.skip_special_tokens,
    promptLogprobs: body.prompt_logprobs,
    priority: body.priority,
    constraint,
  }) as GenerateOptions;
}

/** Without the fields that were null or absent: the engine's defaults hold for them. */
function given(options: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== null && value !== undefined));
}

function constraintOf(body: SamplingBody): ConstraintSpec | null {
  const found: [string, ConstraintSpec][] = [];
  const format = body.response_format;
  if (format?.type === "json_object")
    found.push(["response_format", { kind: "json_schema", source: '{"type":"object"}', param: "response_format" }]);
  if (format?.type === "json_schema")
    found.push([
      "response_format",
      {
        kind: "json_schema",
        source: JSON.stringify(format.json_schema.schema),
        param: "response_format.json_schema.schema",
      },
    ]);
  if (body.guided_json != null) {
    const source = typeof body.guided_json === "string" ? body.guided_json : JSON.stringify(body.guided_json);
    found.push(["guided_json", { kind: "json_schema", source, param: "guided_json" }]);
  }
  if (body.guided_regex != null)
    found.push(["guided_regex", { kind: "regex", source: body.guided_regex, param: "guided_regex" }]);
  if (body.guided_grammar != null)
    found.push(["guided_grammar", { kind: "grammar", source: body.guided_grammar, param: "guided_grammar" }]);
  if (body.guided_choice != null) {
    const source = body.guided_choice.map((choice) => choice.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&")).join("|");
    found.push(["guided_choice", { kind: "regex", source, param: "guided_choice" }]);
  }
  if (found.length > 1) {
    const [a, b] = found.map(([name]) => name);
    throw new ApiError("invalid_value", `${a} and ${b} cannot both be given; use one.`, { param: b! });
  }
  return found[0]?.[1] ?? null;
}
