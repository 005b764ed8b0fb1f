// Builds a core from a config: device, weights, page pool, cache, scheduler, planners. Runs on the engine's own thread.

import { createHash } from "node:crypto";
import { AdapterPool } from "../../../adapters/adapter-pool.js";
import { AdapterSites } from "../../../adapters/attach.js";
import { openAdapter } from "../../../adapters/open.js";
import { CacheManager } from "../../../cache/cache-manager.js";
import { HostTier } from "../../../cache/host-tier.js";
import { ADAPTER_MEMORY, type EngineConfig } from "../../../config/engine-config.js";
import { packageVersion } from "../../../config/version.js";
import { PagodaError } from "../../../core/errors.js";
import { alignUp, ceilDiv } from "../../../core/math.js";
import type { PredictorMethod } from "../../../core/speculation.js";
import type { Device } from "../../../device/device.js";
import type { Drafter } from "../../../drafter/drafter.js";
import { LookupDrafter } from "../../../drafter/lookup-drafter.js";
import type { ConstraintCompiler } from "../../../grammar/constraint.js";
import { checkLimits, XGrammarCompiler } from "../../../grammar/xgrammar/xgrammar-compiler.js";
import type { HostLayer } from "../../../models/blocks/host-layers.js";
import type { Linear } from "../../../models/blocks/linear.js";
import type { Caches, ModelSpec, PlanSpec } from "../../../models/model.js";
import { familyOf } from "../../../models/registry.js";
import type { Eyes } from "../../../models/vision/vision-model.js";
import { longestRow, Scheduler } from "../../../scheduler/scheduler.js";
import { type Checkpoint, openCheckpoint } from "../../checkpoint.js";
import type { EngineFacts } from "../../messages.js";
import { textFacts } from "../../text-facts.js";
import { EngineCore, type EngineParts } from "../engine-core.js";
import { PageBytes } from "../pages/page-bytes.js";
import { PageExchange } from "../pages/page-exchange.js";
import { RECORD_FORMAT } from "../pages/page-record.js";
import { PrefixStore, type PrefixStoreOptions } from "../pages/prefix-store.js";
import { PictureRows } from "../picture-rows.js";
import { allocCaches, pageBytesOf, pagedCaches, plannerFor } from "./cache-pools.js";
import { kvDtypeOf, openDevice } from "./devices.js";
import { fingerprintOf } from "./fingerprint.js";
import { plannedPredictor, splitCaches, withPredictor } from "./load-predictor.js";
import { poolSizes } from "./pool-sizes.js";
import { reserveSteps } from "./reserve-steps.js";
import { denseLayers, verdictLayer } from "./text-layers.js";
import { visionFor } from "./vision.js";
import { getReady } from "./warm-up.js";

export interface LoadedEngine {
  readonly core: EngineCore;
  readonly facts: EngineFacts;
  readonly cache: CacheManager;
  readonly compiler: ConstraintCompiler | null;
  readonly adapters: AdapterPool;
  /** null: the device's pages cannot be read. */
  readonly exchange: PageExchange | null;
  /** null: no cacheDir, or a model or device whose pages are not kept. */
  readonly store: PrefixStore | null;
}

type OnProgress = (loadedBytes: number, totalBytes: number) => void;

/** With `auto`, a model that does not fit the GPU goes to the cpu device, with one line. */
export async function loadEngine(
  config: EngineConfig,
  onProgress: OnProgress,
  open: (config: EngineConfig) => Promise<Device> = openDevice,
  drafter: Drafter | null = null,
): Promise<LoadedEngine> {
  const parts = readModel(config.model, config);
  const device = await open(config);
  try {
    return await loadOn(device, parts, config, onProgress, drafter);
  } catch (error) {
    device.close();
    const isTooLarge = error instanceof PagodaError && error.code === "out_of_memory";
    if (config.device !== "auto" || !device.info.hasOwnMemory || !isTooLarge) throw error;
    process.stderr.write(`pagoda: ${error.message} Using the cpu device.\n`);
  }
  return loadOn(await open({ ...config, device: "cpu" }), parts, config, onProgress, drafter);
}

/** What a checkpoint says of its model: refused before a device is opened. */
function readModel(path: string, { mmproj, images }: Pick<EngineConfig, "mmproj" | "images">) {
  const checkpoint = openCheckpoint(path, images ? (mmproj ?? undefined) : null);
  const family = familyOf(checkpoint.config, checkpoint.configFile);
  const parsed = family.parseConfig(checkpoint.config, checkpoint.configFile);
  return { checkpoint, family, parsed, spec: family.specOf(parsed) };
}

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: one part after the other, each made of those before it
async function loadOn(
  device: Device,
  { checkpoint, family, parsed, spec }: ReturnType<typeof readModel>,
  config: EngineConfig,
  onProgress: OnProgress,
  drafter: Drafter | null,
): Promise<LoadedEngine> {
  const maxContext = Math.min(config.maxContext ?? spec.maxContext, spec.maxContext);
  const planned = plannedPredictor(config, { checkpoint, spec }, maxContext);
  const { isBidirectional = false } = spec;
  // A text whose tokens see each other is computed in one step, so a step must hold the longest.
  const longest = isBidirectional ? ceilDiv(maxContext, config.pageSize) : 0;
  const vision = visionFor(checkpoint, maxContext, config);
  // A picture whose tokens see each other is computed in one chunk, from a page boundary to one.
  const wholeTokens = vision?.facts.isWhole
    ? alignUp(vision.facts.maxFrameTokens, config.pageSize) + config.pageSize
    : 0;
  const maxPagesPerBatch = Math.max(config.maxPagesPerBatch, longest, ceilDiv(wholeTokens, config.pageSize));
  const maxTokens = config.pageSize * maxPagesPerBatch;
  const maxLogitRows = logitRowsThatFit(spec, maxTokens, device);
  const source = checkpoint.openTensors();
  let model: ReturnType<typeof family.load>;
  let fingerprint: string;
  let verdict: HostLayer | null = null;
  let dense: HostLayer | null = null;
  const linears: Linear[] = [];
  let eyes: Eyes | null = null;
  try {
    fingerprint = fingerprintOf(checkpoint.config, source);
    dense = denseLayers(checkpoint.recipe.dense, source);
    if (checkpoint.recipe.verdict !== null) verdict = verdictLayer(source, checkpoint.recipe.verdict);
    let totalBytes = 0;
    for (const name of source.names()) totalBytes += source.get(name).byteLength;
    let loadedBytes = 0;
    model = family.load(parsed, {
      device,
      source,
      capacity: { maxTokens, maxLogitRows, maxContext, deeperRows: (vision?.facts.numRows ?? 1) - 1 },
      quantize: config.quantize,
      ...planned?.needs,
      linears,
      onTensor: (bytes) => {
        loadedBytes += bytes;
        onProgress(loadedBytes, totalBytes);
      },
    });
    eyes = vision?.load({ device, source, quantize: config.quantize }) ?? null;
  } finally {
    source.close();
  }
  const loaded = planned?.load(device, { maxTokens, maxLogitRows, maxContext }, model) ?? null;
  if (loaded !== null) fingerprint = `${fingerprint} ${loaded.fingerprint}`;
  const predictor = loaded?.predictor ?? null;
  const specs = withPredictor(spec.caches, predictor);
  const { mode, pageSize, fixedChunk, targetStepMs } = config;
  const idealChunk = Math.max(config.idealChunk ?? device.info.promptChunk, wholeTokens);
  const prefixCaching = config.prefixCaching && !isBidirectional; // what stands after a prefix changes its keys and values
  const schedulerOptions = { mode, pageSize, maxPagesPerBatch, idealChunk, fixedChunk, targetStepMs };
  const maxChunk = longestRow(schedulerOptions);
  const page = { pageSize, dtype: kvDtypeOf(config, device, spec) };
  const plannersOf = (plans: readonly PlanSpec[], first: number) =>
    plans.map((plan) => {
      const placed = { ...plan, group: first + plan.group };
      return plannerFor(placed, specs, device, config.split, page.dtype);
    });
  reserveSteps(device, { model, predictor, specs, plannersOf, page, maxTokens, maxLogitRows, maxContext });
  const pageBytes = pageBytesOf(specs, device, page);
  const adapterBytes = (config.adapterMemory ?? ADAPTER_MEMORY) * 2 ** 20;
  const isAside = device.info.hasOwnMemory && (config.adapterMemory !== null || config.adapter.length > 0);
  const asideBytes = isAside ? adapterBytes : 0;
  const sizes = poolSizes(config, device, { caches: specs, pageBytes, pageSize, maxContext, maxChunk, asideBytes });
  const caches = allocCaches(specs, device, page, sizes);
  const { ofModel, ofPredictor } = splitCaches(caches, spec.caches, predictor);
  const groups = specs.map((cache, g) => ({ ...cache, numPages: sizes[g]! }));
  const pages = new PageBytes(device, caches);
  const tierBytes = prefixCaching ? tierBytesOf(config.hostCacheMb, device, caches) : 0;
  const hostTier = tierBytes === 0 ? null : new HostTier(tierBytes, pages);
  const cache = new CacheManager({ pageSize, prefixCaching, maxChunk, groups, hostTier });
  const { timeOrigin } = performance;
  const clock = () => timeOrigin + performance.now();
  const scheduler = new Scheduler(schedulerOptions, cache, clock);
  const compiler = compilerFor(checkpoint, spec.vocabSize, config.grammarSeconds);
  const core = new EngineCore({
    name: checkpoint.name,
    device,
    model,
    caches,
    modelCaches: ofModel,
    pageSize,
    cache,
    scheduler,
    planners: plannersOf(spec.plans, 0),
    maxLogitRows,
    maxContext: Math.min(maxContext, cache.maxTokens),
    eosIds: checkpoint.eosIds,
    compiler,
    tokenText: textsOf(checkpoint),
    layers: { embed: dense, score: verdict ?? model.scorer ?? null },
    clock,
    ...(eyes === null
      ? {}
      : {
          pictures: new PictureRows({
            eyes,
            maxBytes: config.imageMemory * 2 ** 20,
            turnMs: config.targetStepMs || DEFAULT_TURN_MS,
            clock,
          }),
        }),
    predictor:
      predictor === null
        ? null
        : {
            predictor,
            caches: ofPredictor,
            planners: plannersOf(predictor.plans, pagedCaches(spec.caches).length),
          },
    ...(drafter === null ? speculationOf(config, device, planned?.method ?? null) : { drafter }),
  });
  const adapters = new AdapterPool({
    device,
    sites: new AdapterSites(device, linears),
    maxBytes: adapterBytes,
    open: (path) => openAdapter(path, checkpoint.config),
    isInFlight: (slot) => core.isAdapterInFlight(slot),
  });
  await device.checkMemory?.();
  if ((config.warmup ?? device.info.hasSlowFirsts === true) && !isBidirectional)
    await getReady(core, cache, Math.min(maxLogitRows, WARMED_ROWS), maxTokens);
  const key = pageKey(config, fingerprint, device, caches);
  const facts: EngineFacts = {
    architecture: spec.architecture,
    vocabSize: spec.vocabSize,
    hiddenSize: spec.hiddenSize,
    ...textFacts(spec, checkpoint.recipe),
    maxContext,
    pageSize,
    poolTokens: cache.maxTokens,
    device: `${device.info.name}: ${device.info.description}`,
    deterministic: device.info.hasLooseBits !== true,
    pageBytes: pages.pageBytes.reduce((sum, bytes) => sum + bytes, 0),
    identity: createHash("sha256")
      .update(JSON.stringify({ ...key, pageSize, split: config.split }))
      .digest("hex")
      .slice(0, 32),
    vision: eyes === null ? null : vision!.facts,
    predictor: planned?.method ?? null,
    config,
  };
  const store =
    config.cacheDir === null || isBidirectional || !device.info.canReadPages
      ? null
      : new PrefixStore({
          cache,
          pages,
          dir: config.cacheDir,
          maxBytes: config.cacheDiskMb * 2 ** 20,
          key,
          log: (line) => process.stderr.write(`pagoda: ${line}\n`),
        });
  store?.load();
  return {
    core,
    facts,
    cache,
    compiler,
    adapters,
    store,
    exchange: device.info.canReadPages ? new PageExchange(cache, pages) : null,
  };
}

/** How long a tower runs before steps have their turn, where steps have no target. */
const DEFAULT_TURN_MS = 20;

/** With auto: what was loaded to guess, else texts where the device says that they pay. */
function speculationOf(
  config: EngineConfig,
  { info }: Device,
  loaded: PredictorMethod | null,
): Pick<EngineParts, "drafter" | "speculation"> {
  const { speculative, speculativeTokens, speculativeMinMatch, speculativeMaxMatch, speculativeHistory } = config;
  const method = speculative !== "auto" ? speculative : (loaded ?? (info.draftsPay ? "suffix" : "off"));
  return {
    drafter: new LookupDrafter({
      minMatch: speculativeMinMatch,
      maxMatch: Math.max(speculativeMinMatch, speculativeMaxMatch),
      historyTokens: speculativeHistory,
    }),
    speculation: { method, tokens: speculativeTokens },
  };
}

/** Rows of the largest step that a warm-up takes. */
const WARMED_ROWS = 256;

/** Memory of the second tier: what was asked for, else what the device has for it, at most as much as its pools. */
function tierBytesOf(megabytes: number | null, device: Device, caches: Caches): number {
  if (device.swapOut === undefined && !device.info.canReadPages) return 0;
  if (megabytes !== null) return megabytes * 2 ** 20;
  const poolBytes = caches.reduce((sum, { byteLength }) => sum + byteLength, 0);
  return Math.min(device.info.hostTierBytes, poolBytes);
}

/** What the bytes of a page depend on beside its tokens. */
function pageKey(config: EngineConfig, model: string, device: Device, caches: Caches): PrefixStoreOptions["key"] {
  const { quantize, maxContext } = config; // the context decides which set of rotary factors some models use
  const { numerics } = device.info;
  const dtypes = caches.map((pool) => ("dtype" in pool.spec ? pool.spec.dtype : "f32"));
  return { version: packageVersion(), records: RECORD_FORMAT, model, quantize, maxContext, dtypes, numerics };
}

function textsOf({ tokenizer }: Checkpoint): (token: number) => string {
  const utf8 = new TextDecoder();
  return (token) => (tokenizer === null ? "" : utf8.decode(tokenizer.tokenBytes(token)));
}

/** Structured output needs to know what text each token is. */
function compilerFor(
  { tokenizer, eosIds }: Checkpoint,
  vocabSize: number,
  maxSeconds: number,
): ConstraintCompiler | null {
  if (tokenizer === null) return null;
  const nothing = new Uint8Array(0);
  const vocabularyOf = () => ({
    bytes: Array.from({ length: vocabSize }, (_, id) => (tokenizer.isSpecial(id) ? nothing : tokenizer.tokenBytes(id))),
    stopIds: eosIds,
  });
  return new XGrammarCompiler(vocabularyOf, { checkMs: checkLimits(1000 * maxSeconds) });
}

/** Logits of a step are computed in blocks of at most this memory: on the host, and on a device beside it. */
const LOGITS_BYTES = 64 * 2 ** 20;
const DEVICE_LOGITS_BYTES = 512 * 2 ** 20;

function logitRowsThatFit(spec: ModelSpec, maxTokens: number, device: Device): number {
  const bytes = device.info.hasOwnMemory ? DEVICE_LOGITS_BYTES : LOGITS_BYTES;
  return Math.min(maxTokens, Math.max(32, Math.floor(bytes / (spec.vocabSize * 4))));
}
