import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { toVllmNames, VLLM_NAMES } from "./vllm-names.js";

test("series, their help and their buckets get vLLM's names; what vLLM does not have keeps its own", () => {
  const scrape = [
    "# HELP pagoda_requests_running Requests",
    "# TYPE pagoda_requests_running gauge",
    'pagoda_requests_running{model_name="pagoda_requests_running m"} 3',
    'pagoda_request_seconds_bucket{le="1"} 2',
    "pagoda_request_seconds_sum 4",
    "pagoda_request_queue_seconds_count 5",
    "pagoda_steps_total 6",
  ];
  assert.deepEqual(toVllmNames(scrape.join("\n")).split("\n"), [
    "# HELP vllm:num_requests_running Requests",
    "# TYPE vllm:num_requests_running gauge",
    'vllm:num_requests_running{model_name="pagoda_requests_running m"} 3',
    'vllm:e2e_request_latency_seconds_bucket{le="1"} 2',
    "vllm:e2e_request_latency_seconds_sum 4",
    "vllm:request_queue_time_seconds_count 5",
    "pagoda_steps_total 6",
  ]);
});

test("the table in docs/guide/operations.md is this one", () => {
  const text = readFileSync("docs/guide/operations.md", "utf8");
  const rows = [...text.matchAll(/^\| `(pagoda_\w+)(?:\{[^}]*\})?` \| `(vllm:\w+)/gm)];
  assert.deepEqual(Object.fromEntries(rows.map(([, ours, theirs]) => [ours, theirs])), VLLM_NAMES);
});
