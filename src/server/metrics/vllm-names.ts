// The metrics under the names that vLLM gives them, for what reads those: the inference gateway of Kubernetes, llm-d, dashboards. What vLLM does
// not have keeps its name. docs/guide/operations.md has the table.

export const VLLM_NAMES: Readonly<Record<string, string>> = {
  pagoda_requests_running: "vllm:num_requests_running",
  pagoda_requests_waiting: "vllm:num_requests_waiting",
  pagoda_kv_cache_usage_ratio: "vllm:kv_cache_usage_perc",
  pagoda_cache_config_info: "vllm:cache_config_info",
  pagoda_prefix_cache_queries_total: "vllm:prefix_cache_queries_total",
  pagoda_prefix_cache_hits_total: "vllm:prefix_cache_hits_total",
  pagoda_prompt_tokens_total: "vllm:prompt_tokens_total",
  pagoda_generation_tokens_total: "vllm:generation_tokens_total",
  pagoda_preemptions_total: "vllm:num_preemptions_total",
  pagoda_requests_finished_total: "vllm:request_success_total",
  pagoda_time_to_first_token_seconds: "vllm:time_to_first_token_seconds",
  pagoda_inter_token_seconds: "vllm:inter_token_latency_seconds",
  pagoda_request_seconds: "vllm:e2e_request_latency_seconds",
  pagoda_request_queue_seconds: "vllm:request_queue_time_seconds",
  pagoda_request_prompt_tokens: "vllm:request_prompt_tokens",
  pagoda_spec_decode_drafts_total: "vllm:spec_decode_num_drafts_total",
  pagoda_spec_decode_draft_tokens_total: "vllm:spec_decode_num_draft_tokens_total",
  pagoda_spec_decode_accepted_tokens_total: "vllm:spec_decode_num_accepted_tokens_total",
  pagoda_spec_decode_accepted_tokens_per_pos_total: "vllm:spec_decode_num_accepted_tokens_per_pos_total",
  pagoda_lora_requests_info: "vllm:lora_requests_info",
  pagoda_request_generation_tokens: "vllm:request_generation_tokens",
};

/** A scrape with those names. */
export function toVllmNames(scrape: string): string {
  return scrape.replaceAll(
    /^(# (?:HELP|TYPE) )?(pagoda_\w+?)(_bucket|_sum|_count)?(?=[ {])/gm,
    (whole, head = "", name, tail = "") => {
      const renamed = VLLM_NAMES[name];
      return renamed === undefined ? whole : `${head}${renamed}${tail}`;
    },
  );
}
