import assert from "node:assert/strict";
import { test } from "node:test";
import { PagodaError } from "../core/errors.js";
import { engineConfig } from "./engine-config.js";

const speculationOf = (...layers: Record<string, unknown>[]) => {
  const config = engineConfig(...layers);
  const { speculative, speculativeTokens, speculativeMinMatch, speculativeMaxMatch, speculativeHistory } = config;
  assert.equal(config.speculativeConfig, null);
  return [speculative, speculativeTokens, speculativeMinMatch, speculativeMaxMatch, speculativeHistory];
};
const DEFAULTS = speculationOf();

test("speculation is asked for by a word, or by an object of its fields", () => {
  assert.deepEqual(DEFAULTS, ["auto", 15, 2, 24, 32768]);
  assert.equal(speculationOf({ speculative: "ngram" })[0], "ngram");
  const asked = { method: "suffix", tokens: 4, minMatch: 3, maxMatch: 9, history: 0 };
  assert.deepEqual(speculationOf({ speculative: asked }), ["suffix", 4, 3, 9, 0]);
  assert.deepEqual(speculationOf({ speculative: { tokens: 4 } }, { speculativeTokens: 5 })[1], 5, "later layers win");
});

test("vLLM's --speculative-config is taken as it is", () => {
  const ngram = { method: "ngram", num_speculative_tokens: 5, prompt_lookup_min: 2, prompt_lookup_max: 4 };
  assert.deepEqual(speculationOf({ speculativeConfig: JSON.stringify(ngram) }), ["ngram", 5, 2, 4, 32768]);
  const suffix = {
    ...{ method: "suffix", num_speculative_tokens: 32, suffix_decoding_max_tree_depth: 16 },
    ...{
      suffix_decoding_max_cached_requests: 0,
      suffix_decoding_max_spec_factor: 1,
      suffix_decoding_min_token_prob: 0.1,
    },
  };
  assert.deepEqual(speculationOf({ speculativeConfig: JSON.stringify(suffix) }), ["suffix", 15, 2, 16, 0]);
  assert.equal(speculationOf({ speculativeConfig: '{"model": "[ngram]"}' })[0], "ngram");
  const draft = '{"method": "draft_model", "model": "org/draft", "num_speculative_tokens": 5}';
  assert.deepEqual(speculationOf({ speculativeConfig: draft }).slice(0, 2), ["draft", 5]);
  assert.equal(engineConfig({ speculativeConfig: draft }).draftModel, "org/draft");
  const eagle = engineConfig({ speculativeConfig: '{"method": "eagle3", "model": "org/head"}' });
  assert.deepEqual([eagle.speculative, eagle.draftModel], ["eagle3", "org/head"]);
  for (const method of ["mtp", "deepseek_mtp", "glm4_moe_mtp", "qwen3_next_mtp"])
    assert.equal(speculationOf({ speculativeConfig: JSON.stringify({ method }) })[0], "mtp", method);
  assert.equal(speculationOf({ speculative: "off", speculativeConfig: '{"num_speculative_tokens": 3}' })[0], "off");
});

test("what is not supported is refused by name", () => {
  const refused = (options: Record<string, unknown>, code: string, param: string) =>
    assert.throws(
      () => engineConfig(options),
      (error: PagodaError) => error instanceof PagodaError && error.code === code && error.details.param === param,
    );
  refused({ speculativeConfig: '{"method": "medusa", "model": "x/y"}' }, "invalid_option", "speculative.method");
  refused({ speculativeConfig: '{"method": "ngram", "num_guesses": 3}' }, "unknown_option", "speculative.num_guesses");
  refused({ speculativeConfig: "ngram" }, "invalid_option", "speculativeConfig");
  refused({ speculative: { method: "ngram", tokens: 0 } }, "invalid_option", "speculativeTokens");
  refused({ speculative: "eagle" }, "invalid_option", "speculative");
});
