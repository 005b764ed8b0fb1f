// Builds a core from a config: device, weights, page pool, cache, scheduler, planners. Runs on the engine's own thread.

import { freemem } from "node:os";
import { CacheManager } from "../../cache/cache-manager.js";
import type { EngineConfig } from "../../config/engine-config.js";
import { DeviceError } from "../../core/errors.js";
import { ceilDiv } from "../../core/math.js";
import type { Device, KvPoolSpec } from "../../device/device.js";
import type { ConstraintCompiler } from "../../grammar/constraint.js";
import { XGrammarCompiler } from "../../grammar/xgrammar/xgrammar-compiler.js";
import type { ModelSpec } from "../../models/model.js";
import { familyOf } from "../../models/registry.js";
import { Scheduler } from "../../scheduler/scheduler.js";
import { type Checkpoint, openCheckpoint } from "../checkpoint.js";
import type { EngineFacts } from "../messages.js";
import { pageBytes, pageSpecs, plannerFor } from "./cache-pools.js";
import { kvDtypeOf, openDevice } from "./devices.js";
import { EngineCore } from "./engine-core.js";

export interface LoadedEngine {
  readonly core: EngineCore;
  readonly facts: EngineFacts;
  readonly compiler: ConstraintCompiler | null;
}

export async function loadEngine(
  config: EngineConfig,
  onProgress: (loadedBytes: number, totalBytes: number) => void,
  open: (config: EngineConfig) => Promise<Device> = openDevice,
): Promise<LoadedEngine> {
  const checkpoint = openCheckpoint(config.model);
  const family = familyOf(checkpoint.config, checkpoint.configFile);
  const parsed = family.parseConfig(checkpoint.config, checkpoint.configFile);
  const spec = family.specOf(parsed);
  const device = await open(config);
  const maxContext = Math.min(config.maxContext ?? spec.maxContext, spec.maxContext);
  const maxTokens = config.pageSize * config.maxPagesPerBatch;
  const maxLogitRows = logitRowsThatFit(spec, maxTokens);
  const source = checkpoint.openTensors();
  let model: ReturnType<typeof family.load>;
  try {
    let totalBytes = 0;
    for (const name of source.names()) totalBytes += source.get(name).byteLength;
    let loadedBytes = 0;
    model = family.load(parsed, {
      device,
      source,
      capacity: { maxTokens, maxLogitRows, maxContext },
      quantize: config.quantize,
      onTensor: (bytes) => {
        loadedBytes += bytes;
        onProgress(loadedBytes, totalBytes);
      },
    });
  } finally {
    source.close();
  }
  const specs = pageSpecs(spec.caches, { pageSize: config.pageSize, dtype: kvDtypeOf(config, device) });
  const numPages = numPagesFor(config, device, specs, maxContext);
  const caches = specs.map((page) => device.allocKvPool({ ...page, numPages }));
  const cache = new CacheManager({
    pageSize: config.pageSize,
    prefixCaching: config.prefixCaching,
    groups: spec.caches.map(() => ({ kind: "full", numPages })),
  });
  const clock = () => performance.timeOrigin + performance.now();
  const { mode, pageSize, maxPagesPerBatch, idealChunk, fixedChunk } = config;
  const scheduler = new Scheduler({ mode, pageSize, maxPagesPerBatch, idealChunk, fixedChunk }, cache, clock);
  const planners = spec.plans.map((plan) => plannerFor(plan, spec.caches, device, config.split));
  const compiler = compilerFor(checkpoint, spec.vocabSize);
  const core = new EngineCore({
    name: checkpoint.name,
    device,
    model,
    caches,
    pageSize,
    cache,
    scheduler,
    planners,
    maxLogitRows,
    maxContext: Math.min(maxContext, (numPages - 1) * pageSize),
    eosIds: checkpoint.eosIds,
    compiler,
    clock,
  });
  const facts: EngineFacts = {
    architecture: spec.architecture,
    vocabSize: spec.vocabSize,
    hiddenSize: spec.hiddenSize,
    maxContext,
    pageSize,
    numPages,
    device: `${device.info.name}: ${device.info.description}`,
    config,
  };
  return { core, facts, compiler };
}

/** Structured output needs to know what text each token is. */
function compilerFor({ tokenizer, eosIds }: Checkpoint, vocabSize: number): ConstraintCompiler | null {
  if (tokenizer === null) return null;
  const nothing = new Uint8Array(0);
  return new XGrammarCompiler(() => ({
    bytes: Array.from({ length: vocabSize }, (_, id) => (tokenizer.isSpecial(id) ? nothing : tokenizer.tokenBytes(id))),
    stopIds: eosIds,
  }));
}

/** Sequences of full length the pool is made for when nobody says otherwise. */
const DEFAULT_SEQUENCES = 64;
const REFERENCE_POOL_BYTES = 2 ** 30;

/** Pages of the pool an engine with this config makes. */
export function numPagesFor(
  config: Pick<EngineConfig, "numPages" | "kvMemoryMb">,
  device: Device,
  specs: readonly Omit<KvPoolSpec, "numPages">[],
  maxContext: number,
): number {
  return config.numPages ?? pagesThatFit(device, specs, maxContext, config.kvMemoryMb);
}

/** Pages for many full sequences, in at most a quarter of the free memory, or in exactly what was asked for. */
function pagesThatFit(
  device: Device,
  specs: readonly Omit<KvPoolSpec, "numPages">[],
  maxContext: number,
  memoryMb: number | null,
): number {
  const bytesEach = pageBytes(specs, device);
  const bytes = memoryMb === null ? freemem() / 4 : memoryMb * 2 ** 20;
  const limit = device.info.name === "reference" ? Math.min(bytes, REFERENCE_POOL_BYTES) : bytes;
  const fitting = Math.floor(limit / bytesEach);
  if (fitting < 2) {
    throw new DeviceError("out_of_memory", {
      device: device.info.name,
      value: 2 * bytesEach,
      what: "two pages of the KV cache",
      limit: Math.floor(limit),
      remedy: "Free memory, raise kvMemoryMb or lower pageSize.",
    });
  }
  if (memoryMb !== null) return fitting;
  return Math.min(fitting, DEFAULT_SEQUENCES * ceilDiv(maxContext, specs[0]!.pageSize) + 1);
}

/** Logits of a step are computed in blocks of at most this memory. */
const LOGITS_BYTES = 64 * 2 ** 20;

function logitRowsThatFit(spec: ModelSpec, maxTokens: number): number {
  return Math.min(maxTokens, Math.max(32, Math.floor(LOGITS_BYTES / (spec.vocabSize * 4))));
}
