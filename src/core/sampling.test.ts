import assert from "node:assert/strict";
import { test } from "node:test";
import { SAMPLING, SAMPLING_DEFAULTS, type SamplingParam } from "./sampling.js";

test("every parameter has the range, default and names that docs/reference/sampling.md and the API promise", () => {
  const most = 2 ** 24;
  const large = Number.MAX_SAFE_INTEGER;
  const rows = (Object.entries(SAMPLING) as [string, SamplingParam][]).map(([key, param]) => [
    ...[key, param.type, param.min ?? null, param.max ?? null, param.default, param.api, param.isFlag],
    ...(param.isNullable === true ? ["or null"] : []),
    ...(param.apiOff === undefined ? [] : [param.apiOff]),
  ]);
  assert.deepEqual(rows, [
    ["temperature", "number", 0, 100, 1, "temperature", true],
    ["topK", "integer", 0, 2147483647, 0, "top_k", true, -1],
    ["topP", "number", 0, 1, 1, "top_p", true],
    ["minP", "number", 0, 1, 0, "min_p", true],
    ["repetitionPenalty", "number", 0.01, 100, 1, "repetition_penalty", true],
    ["presencePenalty", "number", -100, 100, 0, "presence_penalty", true],
    ["frequencyPenalty", "number", -100, 100, 0, "frequency_penalty", true],
    ["dryMultiplier", "number", 0, 100, 0, "dry_multiplier", true],
    ["dryBase", "number", 1, 100, 1.75, "dry_base", true],
    ["dryAllowedLength", "integer", 0, 2 ** 20, 2, "dry_allowed_length", true],
    ["dryPenaltyLastN", "integer", -1, most, -1, "dry_penalty_last_n", true],
    ["drySequenceBreakers", "strings", null, 64, ["\n", ":", '"', "*"], "dry_sequence_breakers", false],
    ["xtcProbability", "number", 0, 1, 0, "xtc_probability", true],
    ["xtcThreshold", "number", 0, 1, 0.1, "xtc_threshold", true],
    ["loopCount", "integer", 0, 2 ** 20, 0, null, true],
    ["loopMinSize", "integer", 1, 4096, 1, null, true],
    ["loopMaxSize", "integer", 1, 4096, 32, null, true],
    ["logitBias", "bias", -100, 100, [], "logit_bias", false],
    ["maxTokens", "integer", 0, most, null, "max_tokens", true],
    ["minTokens", "integer", 0, most, 0, "min_tokens", true],
    ["seed", "integer", -large, large, null, "seed", true],
    ["n", "integer", 1, 128, 1, "n", false],
    ["stop", "strings", null, 64, [], "stop", true],
    ["stopTokenIds", "tokens", null, 1024, [], "stop_token_ids", false],
    ["ignoreEos", "boolean", null, null, false, "ignore_eos", true],
    ["logprobs", "integer", 0, 64, null, null, false, "or null"],
    ["promptLogprobs", "integer", 0, 64, null, "prompt_logprobs", false, "or null"],
  ]);
  const known = Object.keys(SAMPLING).filter((key) => key !== "seed" && key !== "maxTokens");
  assert.deepEqual(Object.keys(SAMPLING_DEFAULTS), known);
});
