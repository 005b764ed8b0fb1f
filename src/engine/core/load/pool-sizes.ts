// How the cache's memory is shared out over the model's groups. The unit is a typical sequence: what it takes of each group, so that no
// group runs out long before the others.
//
//   full, latent   its pages
//   window         its pages, at most those of window + chunk
//   state          a working slot, and snapshots at some of its page boundaries

import type { EngineConfig } from "../../../config/engine-config.js";
import type { CacheSpec } from "../../../core/cache-spec.js";
import { DeviceError } from "../../../core/errors.js";
import { ceilDiv } from "../../../core/math.js";
import type { Device } from "../../../device/device.js";

/** What decides the sizes besides memory. */
export interface PoolNeeds {
  readonly caches: readonly CacheSpec[];
  /** Bytes of a page (a slot, for states) of each group. */
  readonly pageBytes: readonly number[];
  readonly pageSize: number;
  readonly maxContext: number;
  /** The longest chunk of a step, in tokens. */
  readonly maxChunk: number;
  /** Of the memory that the device may use: what adapters will take. Left out: nothing. */
  readonly asideBytes?: number;
}

/** Sequences of full length the pools are made for when nobody says otherwise. */
const DEFAULT_SEQUENCES = 64;
const TYPICAL_TOKENS = 4096;
/** Slots of a sequence: one to work in, two snapshots. */
const TYPICAL_STATES = 3;
/** Sequences with states that can run at least, where pages are counted and not memory. */
const LEAST_SEQUENCES = 8;

/** Pages of each group's pool, the null page included. numPages, where given, is that of the groups that keep everything. */
export function poolSizes(
  config: Pick<EngineConfig, "numPages" | "kvMemoryMb">,
  device: Device,
  needs: PoolNeeds,
): number[] {
  const { numPages } = config;
  if (numPages === null) {
    const sequences = sequencesThatFit(config.kvMemoryMb, device, needs);
    return needs.caches.map(
      (cache) => 1 + Math.max(leastOf(cache, needs), Math.floor(sequences * typicalOf(cache, needs))),
    );
  }
  const sequences = (numPages - 1) / ceilDiv(typicalTokens(needs), needs.pageSize);
  return needs.caches.map((cache) => {
    if (cache.kind === "full" || cache.kind === "latent") return numPages;
    const atLeast = cache.kind === "state" ? Math.max(sequences, LEAST_SEQUENCES) : sequences;
    return 1 + Math.max(leastOf(cache, needs), Math.ceil(atLeast * typicalOf(cache, needs)));
  });
}

function typicalTokens({ maxContext }: PoolNeeds): number {
  return Math.min(maxContext, TYPICAL_TOKENS);
}

/** What a typical sequence takes of a group. */
function typicalOf(cache: CacheSpec, needs: PoolNeeds): number {
  if (cache.kind === "state") return TYPICAL_STATES;
  const all = ceilDiv(typicalTokens(needs), needs.pageSize);
  return cache.kind === "window" ? Math.min(all, windowPages(cache, needs)) : all;
}

/** What one sequence needs at least to run. */
function leastOf(cache: CacheSpec, needs: PoolNeeds): number {
  if (cache.kind === "window") return Math.min(windowPages(cache, needs), ceilDiv(needs.maxContext, needs.pageSize));
  return 1;
}

/** The most pages a running sequence holds of a window group. */
function windowPages({ window = 0, attentionChunk = 0 }: CacheSpec, { pageSize, maxChunk }: PoolNeeds): number {
  return ceilDiv(window + attentionChunk + maxChunk, pageSize) + 1;
}

/** Typical sequences in the memory that the device may use, or in exactly what was asked for. */
function sequencesThatFit(memoryMb: number | null, device: Device, needs: PoolNeeds): number {
  const { caches, pageBytes, maxContext, asideBytes = 0 } = needs;
  const bytes = memoryMb === null ? device.freeMemory() - asideBytes : memoryMb * 2 ** 20;
  const limit = Math.min(bytes, device.info.maxPoolBytes);
  const nullBytes = pageBytes.reduce((sum, size) => sum + size, 0); // of the null pages
  if (limit < 2 * nullBytes) {
    throw new DeviceError("out_of_memory", {
      device: device.info.name,
      value: 2 * nullBytes,
      what: "two pages of the KV cache",
      limit: Math.max(0, Math.floor(limit)),
      remedy: "Free memory, raise kvMemoryMb or lower pageSize.",
    });
  }
  const each = caches.reduce((sum, cache, g) => sum + typicalOf(cache, needs) * pageBytes[g]!, 0);
  const fitting = (limit - nullBytes) / each;
  return memoryMb === null ? Math.min(fitting, (DEFAULT_SEQUENCES * maxContext) / typicalTokens(needs)) : fitting;
}
