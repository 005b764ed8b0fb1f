// Prometheus metrics of the service. Gauges and totals are read from the engine when scraped; latencies are observed as requests
// end and steps happen. docs/guide/operations.md maps the names to vLLM's.

import { hostMsOf } from "../../engine/core/step-recorder.js";
import type { Engine, EngineStats, RequestTrace } from "../../engine/types.js";
import type { Gate } from "../http/gate.js";
import { type Histogram, Registry, type Samples } from "./registry.js";

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];
const SHORT_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1, 2.5];
const TOKENS = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072];

/** Counters that mirror totals of EngineStats, which begin at zero again when the engine's thread restarts. */
const TOTALS: readonly (readonly [name: string, read: (stats: EngineStats) => number, help: string])[] = [
  ["pagoda_prompt_tokens_total", (stats) => stats.promptTokens, "Prompt tokens of finished requests"],
  ["pagoda_generation_tokens_total", (stats) => stats.generatedTokens, "Tokens generated"],
  ["pagoda_prefix_cache_queries_total", (stats) => stats.promptTokens, "Prompt tokens looked up in the prefix cache"],
  ["pagoda_prefix_cache_hits_total", (stats) => stats.cachedTokens, "Prompt tokens found in the prefix cache"],
  [
    "pagoda_padding_avoided_tokens_total",
    (stats) => stats.paddingAvoided,
    "Tokens that rectangular batches would have added",
  ],
  ["pagoda_preemptions_total", (stats) => stats.preemptions, "Requests preempted because the pool was full"],
  ["pagoda_steps_total", (stats) => stats.steps, "Steps run"],
  [
    "pagoda_host_cache_spilled_pages_total",
    (stats) => stats.hostTier?.spilled ?? 0,
    "Pages read from the device into host memory when they were evicted",
  ],
  [
    "pagoda_host_cache_restored_pages_total",
    (stats) => stats.hostTier?.restored ?? 0,
    "Pages written back from host memory to the device instead of computed",
  ],
  [
    "pagoda_gpu_busy_seconds_total",
    (stats) => (stats.deviceUsage?.busyMs ?? 0) / 1000,
    "Time that steps took on the GPU's clock",
  ],
  ["pagoda_gpu_launches_total", (stats) => stats.deviceUsage?.launches ?? 0, "Kernels launched on the GPU"],
  [
    "pagoda_gpu_graph_replays_total",
    (stats) => stats.deviceUsage?.graphReplays ?? 0,
    "Steps that ran as a CUDA graph made before",
  ],
  [
    "pagoda_pictures_encoded_total",
    (stats) => stats.pictures.encoded,
    "Pictures, and tiles of them, that the tower encoded",
  ],
  ["pagoda_pictures_reused_total", (stats) => stats.pictures.reused, "Pictures, and tiles, that were encoded before"],
  ["pagoda_spec_decode_drafts_total", (stats) => stats.speculation.drafts, "Steps of requests that tried guesses"],
  ["pagoda_spec_decode_draft_tokens_total", (stats) => stats.speculation.draftTokens, "Tokens guessed ahead"],
  [
    "pagoda_spec_decode_accepted_tokens_total",
    (stats) => stats.speculation.acceptedTokens,
    "Tokens guessed ahead that came true",
  ],
  [
    "pagoda_host_busy_seconds_total",
    (stats) => (stats.hostTimes === null ? 0 : hostMsOf(stats.hostTimes) / 1000),
    "Time the engine's thread worked, beside waiting for the GPU",
  ],
];

export class ServerMetrics {
  readonly registry: Registry;
  readonly #engine: Engine;
  readonly #gate: Gate;
  readonly #gauges: Readonly<Record<string, Samples>>;
  readonly #pages: Samples;
  readonly #cacheConfig: Samples;
  readonly #totals: readonly { counter: Samples; read: (stats: EngineStats) => number; last: number }[];
  readonly #acceptedAt: Samples;
  #lastAcceptedAt: readonly number[] = [];
  readonly #restarts: Samples;
  #lastRestarts = 0;

  readonly #requests: Samples;
  readonly #http: Samples;
  readonly #adapterRequests: Samples;
  readonly #adapterTokens: Samples;
  readonly #adapterBytes: Samples;
  readonly #loraInfo: Samples;
  readonly #ttft: Histogram;
  readonly #interToken: Histogram;
  readonly #latency: Histogram;
  readonly #queueTime: Histogram;
  readonly #promptLength: Histogram;
  readonly #answerLength: Histogram;
  readonly #stepTime: Histogram;
  readonly #stepTokens: Histogram;
  #ttftSumMs = 0;
  #ttftCount = 0;

  constructor(engine: Engine, gate: Gate, modelName: string, lostLogLines: () => number) {
    this.#engine = engine;
    this.#gate = gate;
    const registry = new Registry({ model_name: modelName });
    this.registry = registry;
    const gauge = (name: string, help: string) => registry.gauge(name, help);
    this.#gauges = {
      running: gauge("pagoda_requests_running", "Requests in the running batch"),
      waiting: gauge("pagoda_requests_waiting", "Requests waiting in the engine or at its gate"),
      usage: gauge("pagoda_kv_cache_usage_ratio", "Share of the pages that requests own, 0 to 1"),
      hostPages: gauge("pagoda_host_cache_pages", "Evicted pages kept in host memory"),
      hostBytes: gauge("pagoda_host_cache_bytes", "Bytes of the evicted pages kept in host memory"),
      gpuMemory: gauge("pagoda_gpu_memory_bytes", "Memory of the GPU"),
      gpuMemoryUsed: gauge("pagoda_gpu_memory_used_bytes", "Memory of the GPU that this engine has taken"),
      up: gauge("pagoda_engine_up", "1 while the engine's thread serves"),
    };
    this.#pages = registry.gauges(
      "pagoda_pages",
      "Pages of the KV cache by state and cache group; those of a state group are slots",
    );
    this.#cacheConfig = registry.gauges(
      "pagoda_cache_config_info",
      "1; the labels say how many tokens a page has and how many pages there are",
    );
    const counter = (name: string, help: string) => registry.counter(name, help);
    this.#totals = TOTALS.map(([name, read, help]) => ({ counter: counter(name, help), read, last: 0 }));
    registry.counter("pagoda_log_lines_lost_total", "Log lines that standard error did not take", lostLogLines);
    this.#acceptedAt = registry.counters(
      "pagoda_spec_decode_accepted_tokens_per_pos_total",
      "Tokens guessed ahead that came true, by their place among the guesses of a step",
    );
    this.#restarts = counter("pagoda_engine_restarts_total", "Restarts of the engine's thread");
    this.#requests = registry.counters("pagoda_requests_finished_total", "Requests that ended, by how");
    this.#http = registry.counters("pagoda_http_requests_total", "HTTP requests, by route and status");
    this.#adapterRequests = registry.counters(
      "pagoda_adapter_requests_finished_total",
      "Requests that ended, by adapter",
    );
    this.#adapterTokens = registry.counters("pagoda_adapter_generation_tokens_total", "Tokens generated, by adapter");
    this.#adapterBytes = registry.gauges("pagoda_adapter_bytes", "Memory of the adapters that are loaded");
    this.#loraInfo = registry.gauges(
      "pagoda_lora_requests_info",
      "When it was scraped; the labels name the adapters of running and of waiting requests, and how many may be loaded",
    );
    const histogram = (name: string, help: string, bounds: readonly number[]) => registry.histogram(name, help, bounds);
    this.#ttft = histogram("pagoda_time_to_first_token_seconds", "From arrival to the first token", SECONDS);
    this.#interToken = histogram("pagoda_inter_token_seconds", "Between tokens of an answer", SHORT_SECONDS);
    this.#latency = histogram("pagoda_request_seconds", "From arrival to the last token", SECONDS);
    this.#queueTime = histogram("pagoda_request_queue_seconds", "From arrival to the first step", SECONDS);
    this.#promptLength = histogram("pagoda_request_prompt_tokens", "Prompt tokens of a request", TOKENS);
    this.#answerLength = histogram("pagoda_request_generation_tokens", "Generated tokens of a request", TOKENS);
    this.#stepTime = histogram("pagoda_step_seconds", "Time of a step", SHORT_SECONDS);
    this.#stepTokens = histogram("pagoda_step_tokens", "Tokens computed in a step", TOKENS);
  }

  countHttp(route: string, method: string, status: number): void {
    this.#http.add(1, { route, method, status });
  }

  countFinished(reason: string): void {
    this.#requests.add(1, { finished_reason: reason });
  }

  countAdapter(adapter: string, { completionTokens }: RequestTrace): void {
    this.#adapterRequests.add(1, { adapter });
    this.#adapterTokens.add(completionTokens, { adapter });
  }

  observeTokens(count: number, sinceLastMs: number): void {
    if (count === 0) return;
    this.#interToken.observe(sinceLastMs / 1000 / count, count);
  }

  observeTrace(trace: RequestTrace): void {
    this.#ttft.observe(trace.timeToFirstTokenMs / 1000);
    this.#latency.observe(trace.totalMs / 1000);
    this.#queueTime.observe(trace.queuedMs / 1000);
    this.#promptLength.observe(trace.promptTokens);
    this.#answerLength.observe(trace.completionTokens);
    this.#ttftSumMs += trace.timeToFirstTokenMs;
    this.#ttftCount++;
  }

  get ttft(): { count: number; mean: number } {
    return { count: this.#ttftCount, mean: this.#ttftCount === 0 ? 0 : this.#ttftSumMs / this.#ttftCount };
  }

  /** Follows the engine's steps until it closes. */
  async watchSteps(signal: AbortSignal): Promise<void> {
    for await (const step of this.#engine.inspect.steps({ signal })) {
      this.#stepTime.observe(step.durationMs / 1000);
      this.#stepTokens.observe(step.tokens);
    }
  }

  /** The text of a scrape. */
  async render(): Promise<string> {
    const health = this.#engine.health();
    this.#gauges.up!.set(health.state === "ready" || health.state === "asleep" ? 1 : 0);
    this.#restarts.add(health.restarts - this.#lastRestarts);
    this.#lastRestarts = health.restarts;
    if (health.state === "ready") {
      const stats = await this.#engine.stats();
      if (stats !== null) this.#readStats(stats); // null: the thread ended while it was asked
    }
    return this.registry.text();
  }

  #readStats(stats: EngineStats): void {
    this.#gauges.running!.set(stats.running);
    this.#gauges.waiting!.set(stats.waiting + this.#gate.queued);
    this.#gauges.usage!.set(stats.pagesUsed / stats.pagesTotal);
    this.#gauges.hostPages!.set(stats.hostTier?.pages ?? 0);
    this.#gauges.hostBytes!.set(stats.hostTier?.bytes ?? 0);
    this.#gauges.gpuMemory!.set(stats.deviceUsage?.memoryBytes ?? 0);
    this.#gauges.gpuMemoryUsed!.set(stats.deviceUsage?.memoryUsedBytes ?? 0);
    for (const [g, { kind, pagesFree, pagesCached, pagesUsed }] of stats.cacheGroups.entries()) {
      const group = `${g}:${kind}`;
      this.#pages.set(pagesFree, { state: "free", group });
      this.#pages.set(pagesCached, { state: "cached", group });
      this.#pages.set(pagesUsed, { state: "used", group });
    }
    this.#cacheConfig.set(1, { block_size: stats.pageSize, num_gpu_blocks: stats.pagesTotal });
    this.#readAdapters(stats);
    this.#readSpeculation(stats);
    for (const total of this.#totals) {
      const now = total.read(stats);
      total.counter.add(now >= total.last ? now - total.last : now);
      total.last = now;
    }
  }

  #readSpeculation({ speculation: { acceptedPerPosition } }: EngineStats): void {
    for (const [position, now] of acceptedPerPosition.entries()) {
      const last = this.#lastAcceptedAt[position] ?? 0;
      this.#acceptedAt.add(now >= last ? now - last : now, { position });
    }
    this.#lastAcceptedAt = acceptedPerPosition;
  }

  #readAdapters({ adapters, adapterLimitBytes }: EngineStats): void {
    this.#adapterBytes.clear();
    this.#loraInfo.clear();
    if (adapters.length === 0) return;
    for (const { name, byteLength } of adapters) this.#adapterBytes.set(byteLength, { adapter: name });
    const used = adapters.filter(({ users }) => users > 0);
    const namesOf = (isLoaded: boolean): string =>
      used.flatMap((adapter) => (adapter.isLoaded === isLoaded ? [adapter.name] : [])).join(",");
    const largest = Math.max(...adapters.map(({ byteLength }) => byteLength), 1);
    const max_lora = Math.max(1, Math.floor(adapterLimitBytes / largest));
    const labels = { running_lora_adapters: namesOf(true), waiting_lora_adapters: namesOf(false), max_lora };
    this.#loraInfo.set(Date.now() / 1000, labels);
  }
}
