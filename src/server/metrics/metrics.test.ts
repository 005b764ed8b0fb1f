import assert from "node:assert/strict";
import { test } from "node:test";
import type { Engine, EngineHealth, EngineStats, RequestTrace, StepRecord } from "../../engine/types.js";
import type { Gate } from "../http/gate.js";
import { ServerMetrics } from "./metrics.js";

const STATS = {
  ...{ running: 2, waiting: 3, steps: 10, pageSize: 16, pagesTotal: 40, pagesFree: 20, pagesCached: 10, pagesUsed: 10 },
  ...{ promptTokens: 100, cachedTokens: 64, generatedTokens: 50, paddingAvoided: 7, preemptions: 1 },
  cacheGroups: [{ kind: "full", pagesTotal: 40, pagesFree: 20, pagesCached: 12, pagesUsed: 8 }],
  hostTier: { pages: 4, bytes: 4096, maxBytes: 9999, spilled: 6, restored: 5 },
  deviceUsage: { memoryBytes: 1000, memoryUsedBytes: 600, busyMs: 2500, launches: 70, graphReplays: 9 },
  hostTimes: { schedule: 100, plan: 200, stage: 300, launch: 400, wait: 9000, commit: 500, deliver: 250, loop: 250 },
  adapters: [
    { name: "sql", isLoaded: true, isPinned: false, users: 2, byteLength: 300 },
    { name: "poet", isLoaded: false, isPinned: false, users: 1, byteLength: 400 },
    { name: "idle", isLoaded: true, isPinned: true, users: 0, byteLength: 100 },
  ],
  adapterLimitBytes: 1000,
  speculation: { drafts: 11, draftTokens: 30, acceptedTokens: 20, acceptedPerPosition: [12, 8] },
  pictures: { encoded: 5, reused: 2, waiting: 0, bytes: 0 },
} as unknown as EngineStats;

async function* tellOneStep(): AsyncGenerator<StepRecord> {
  yield { durationMs: 20, tokens: 33 } as StepRecord;
}

/** An engine that says what it is told to, for what no engine here has: a GPU, and threads that have died. */
class Telling {
  now: EngineStats | null = STATS;
  state: EngineHealth["state"] = "ready";
  restarts = 0;
  readonly inspect = { steps: tellOneStep };
  readonly metrics = new ServerMetrics(this as unknown as Engine, { queued: 4 } as Gate, "tiny", () => 3);

  health(): EngineHealth {
    return { state: this.state, restarts: this.restarts, lastError: null };
  }

  async stats(): Promise<EngineStats | null> {
    return this.now;
  }

  /** Every sample of a scrape by its name and own labels. */
  async scrape(): Promise<Record<string, number>> {
    const lines = (await this.metrics.render()).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    return Object.fromEntries(
      lines.map((line) => {
        assert.ok(line.includes('model_name="tiny"'));
        const [name, value] = line
          .replace(/,?model_name="tiny"/, "")
          .replace("{}", "")
          .split(/ (?=\S+$)/);
        return [name!.replace(/^pagoda_/, ""), Number(value)];
      }),
    );
  }
}

function assertHas(found: Record<string, number>, expected: Record<string, number>): void {
  const picked = Object.fromEntries(Object.keys(expected).map((name) => [name, found[name]]));
  assert.deepEqual(picked, expected);
}

test("gauges and totals are the engine's at the time of the scrape", async () => {
  assertHas(await new Telling().scrape(), {
    ...{ requests_running: 2, requests_waiting: 7, kv_cache_usage_ratio: 0.25, engine_up: 1, engine_restarts_total: 0 },
    ...{ host_cache_pages: 4, host_cache_bytes: 4096, gpu_memory_bytes: 1000, gpu_memory_used_bytes: 600 },
    'pages{state="free",group="0:full"}': 20,
    'pages{state="cached",group="0:full"}': 12,
    'pages{state="used",group="0:full"}': 8,
    'cache_config_info{block_size="16",num_gpu_blocks="40"}': 1,
    ...{ prompt_tokens_total: 100, generation_tokens_total: 50, prefix_cache_queries_total: 100 },
    ...{ prefix_cache_hits_total: 64, padding_avoided_tokens_total: 7, preemptions_total: 1, steps_total: 10 },
    ...{ host_cache_spilled_pages_total: 6, host_cache_restored_pages_total: 5, gpu_busy_seconds_total: 2.5 },
    ...{ pictures_encoded_total: 5, pictures_reused_total: 2 },
    ...{ spec_decode_drafts_total: 11, spec_decode_draft_tokens_total: 30, spec_decode_accepted_tokens_total: 20 },
    'spec_decode_accepted_tokens_per_pos_total{position="0"}': 12,
    'spec_decode_accepted_tokens_per_pos_total{position="1"}': 8,
    ...{ gpu_launches_total: 70, gpu_graph_replays_total: 9, host_busy_seconds_total: 2, log_lines_lost_total: 3 },
  });
});

test("adapters are named as the inference gateway of Kubernetes reads them, with the time of the scrape", async () => {
  const engine = new Telling();
  engine.metrics.countAdapter("sql", { completionTokens: 7 } as RequestTrace);
  const found = await engine.scrape();
  assertHas(found, {
    'adapter_bytes{adapter="sql"}': 300,
    'adapter_bytes{adapter="poet"}': 400,
    'adapter_requests_finished_total{adapter="sql"}': 1,
    'adapter_generation_tokens_total{adapter="sql"}': 7,
  });
  const info = 'lora_requests_info{running_lora_adapters="sql",waiting_lora_adapters="poet",max_lora="2"}';
  assert.ok(Math.abs(found[info]! - Date.now() / 1000) < 60, JSON.stringify(found));
  engine.now = { ...STATS, adapters: [] };
  const without = await engine.scrape();
  assert.deepEqual(
    Object.keys(without).filter((name) => /lora|adapter_bytes/.test(name)),
    [],
    "those that left are not named any more",
  );
});

test("what a device does not have is 0", async () => {
  const engine = new Telling();
  engine.now = { ...STATS, hostTier: null, deviceUsage: null, hostTimes: null };
  assertHas(await engine.scrape(), {
    ...{
      host_cache_pages: 0,
      host_cache_bytes: 0,
      gpu_memory_bytes: 0,
      gpu_memory_used_bytes: 0,
      gpu_launches_total: 0,
    },
    ...{ host_cache_spilled_pages_total: 0, host_cache_restored_pages_total: 0, gpu_busy_seconds_total: 0 },
    ...{ gpu_graph_replays_total: 0, host_busy_seconds_total: 0 },
  });
});

test("totals go on over restarts; while there is no thread, the last values stand", async () => {
  const engine = new Telling();
  await engine.scrape();
  engine.now = { ...STATS, steps: 15 };
  assertHas(await engine.scrape(), { steps_total: 15, prompt_tokens_total: 100 });
  engine.now = { ...STATS, steps: 4, running: 9 }; // counted anew
  engine.restarts = 2;
  assertHas(await engine.scrape(), { steps_total: 19, engine_restarts_total: 2, requests_running: 9 });
  engine.now = { ...STATS, steps: 5, running: 1 };
  engine.state = "restarting";
  engine.restarts = 3;
  assertHas(await engine.scrape(), { steps_total: 19, engine_up: 0, engine_restarts_total: 3, requests_running: 9 });
  engine.state = "ready";
  engine.now = null;
  assertHas(await engine.scrape(), { steps_total: 19, engine_up: 1 });
});

test("requests, tokens and steps are observed in seconds", async () => {
  const engine = new Telling();
  const { metrics } = engine;
  assert.deepEqual(metrics.ttft, { count: 0, mean: 0 });
  const trace = { timeToFirstTokenMs: 200, totalMs: 1500, queuedMs: 20, promptTokens: 9, completionTokens: 3 };
  metrics.observeTrace(trace as RequestTrace);
  metrics.observeTrace({ ...trace, timeToFirstTokenMs: 400 } as RequestTrace);
  metrics.observeTokens(4, 100);
  metrics.observeTokens(1, 1000);
  metrics.observeTokens(0, 1000);
  metrics.countFinished("stop");
  metrics.countHttp("/v1/models", "GET", 200);
  await metrics.watchSteps(new AbortController().signal);
  assert.deepEqual(metrics.ttft, { count: 2, mean: 300 });
  const found = await engine.scrape();
  assertHas(found, {
    'requests_finished_total{finished_reason="stop"}': 1,
    'http_requests_total{route="/v1/models",method="GET",status="200"}': 1,
    ...{
      time_to_first_token_seconds_count: 2,
      inter_token_seconds_count: 5,
      inter_token_seconds_sum: 1.1,
      request_seconds_sum: 3,
    },
    ...{ request_prompt_tokens_sum: 18, request_generation_tokens_sum: 6, step_tokens_sum: 33, step_seconds_sum: 0.02 },
    'inter_token_seconds_bucket{le="0.02"}': 0,
    'inter_token_seconds_bucket{le="0.03"}': 4,
    'inter_token_seconds_bucket{le="0.5"}': 4,
    'inter_token_seconds_bucket{le="1"}': 5,
  });
  assert.ok(Math.abs(found.time_to_first_token_seconds_sum! - 0.6) < 1e-9);
  assert.ok(Math.abs(found.request_queue_seconds_sum! - 0.04) < 1e-9);
});

test("buckets: up to two minutes, up to seconds, and powers of two of tokens; lost lines are counted once", async () => {
  const engine = new Telling();
  await engine.scrape();
  const found = await engine.scrape();
  assertHas(found, { log_lines_lost_total: 3 });
  const boundsOf = (name: string): string =>
    Object.keys(found)
      .flatMap((key) => (key.startsWith(`${name}_bucket{`) ? [/le="([^"]+)"/.exec(key)![1]] : []))
      .join(" ");
  const long = "0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60 120 +Inf";
  const short = "0.0005 0.001 0.0025 0.005 0.01 0.02 0.03 0.05 0.075 0.1 0.25 0.5 1 2.5 +Inf";
  const tokens = "1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384 32768 131072 +Inf";
  for (const [bounds, names] of [
    [long, ["time_to_first_token_seconds", "request_seconds", "request_queue_seconds"]],
    [short, ["inter_token_seconds", "step_seconds"]],
    [tokens, ["request_prompt_tokens", "request_generation_tokens", "step_tokens"]],
  ] as const)
    for (const name of names) assert.equal(boundsOf(name), bounds, name);
});
