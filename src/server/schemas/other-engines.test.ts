// What clients of other engines send: nothing of it is refused because it is not known here.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parseKnown } from "../http/known-fields.js";
import { chatSchema } from "../openai/chat-schema.js";

const FIELDS: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  vLLM: {
    ...{ best_of: 1, length_penalty: 1, early_stopping: false, truncate_prompt_tokens: 9, allowed_token_ids: null },
    ...{ bad_words: [], include_stop_str_in_output: false, spaces_between_special_tokens: true, echo: false },
    ...{
      add_special_tokens: false,
      documents: null,
      chat_template: null,
      chat_template_kwargs: {},
      mm_processor_kwargs: null,
    },
    ...{
      guided_decoding_backend: "auto",
      guided_whitespace_pattern: null,
      request_id: "a",
      return_tokens_as_token_ids: false,
    },
    ...{
      return_token_ids: false,
      kv_transfer_params: null,
      vllm_xargs: {},
      prompt_logprobs: null,
      thinking_token_budget: 9,
    },
    ...{ repetition_detection: null, logits_processors: null, cache_salt: "a", priority: 1, detokenize: true },
  },
  SGLang: {
    ...{ no_stop_trim: false, stop_regex: null, separate_reasoning: true, stream_reasoning: true, lora_path: null },
    ...{
      session_params: null,
      return_hidden_states: false,
      rid: "a",
      custom_params: {},
      bootstrap_host: null,
      ebnf: null,
    },
    ...{
      custom_logit_processor: null,
      return_cached_tokens_details: false,
      extra_key: null,
      use_audio_in_video: false,
    },
  },
  "llama.cpp": {
    ...{ cache_prompt: true, id_slot: -1, n_predict: 9, n_keep: 0, n_discard: 0, typical_p: 1, tfs_z: 1, mirostat: 0 },
    ...{
      mirostat_tau: 5,
      mirostat_eta: 0.1,
      dynatemp_range: 0,
      dynatemp_exponent: 1,
      repeat_penalty: 1.1,
      repeat_last_n: 64,
    },
    ...{
      penalize_nl: false,
      samplers: ["top_k"],
      n_probs: 0,
      min_keep: 0,
      t_max_predict_ms: 0,
      timings_per_token: true,
    },
    ...{
      post_sampling_probs: false,
      top_n_sigma: -1,
      return_progress: false,
      reasoning_format: "auto",
      max_tokens: -1,
    },
    ...{ dry_multiplier: 0.8, xtc_probability: 0.1, parse_tool_calls: true, chat_format: null, response_fields: [] },
  },
  OpenRouter: {
    ...{
      reasoning: { effort: "low", exclude: true },
      include_reasoning: true,
      provider: { order: [] },
      models: [],
      route: "fallback",
    },
    ...{ transforms: [], plugins: [], usage: { include: true }, top_a: 0, verbosity: "low", web_search_options: null },
  },
  others: {
    ...{
      thinking: { type: "enabled" },
      enable_thinking: false,
      random_seed: 1,
      safe_prompt: false,
      prefix: false,
      num_ctx: 9,
    },
    ...{
      keep_alive: "5m",
      think: true,
      citation_options: {},
      search_mode: "web",
      deferred: false,
      audio: null,
      options: {},
    },
    ...{
      modalities: ["text"],
      prompt_cache_retention: null,
      context_length_exceeded_behavior: "truncate",
      prediction: null,
    },
    ...{ response_format: { type: "json_object", schema: {} }, raw_output: false, perf_metrics_in_response: false },
  },
};

test("fields of other engines' clients are taken or ignored, one by one and all together", () => {
  const messages = [{ role: "user", content: "a" }];
  const refused: string[] = [];
  let numFields = 0;
  for (const [engine, fields] of Object.entries(FIELDS)) {
    for (const [name, value] of Object.entries(fields)) {
      numFields++;
      const result = parseKnown(chatSchema, { messages, [name]: structuredClone(value) }, { isStrict: false });
      if ("issue" in result) refused.push(`${engine}: ${name}: ${result.issue.message}`);
    }
    const all = parseKnown(chatSchema, structuredClone({ messages, ...fields }), { isStrict: false });
    if ("issue" in all) refused.push(`${engine}, all: ${all.issue.message}`);
  }
  assert.deepEqual(refused, []);
  assert.ok(numFields > 90, `${numFields}`);
});
