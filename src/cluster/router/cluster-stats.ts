// All replicas of a model taken together, in the words of one engine.

import type { EngineFacts } from "../../engine/messages.js";
import type { AdapterInfo, EngineStats } from "../../engine/types.js";
import type { AdapterEntry, ReplicaEntry } from "../membership/registration.js";

/** Limits are those that every replica keeps: a request may have to go on at any of them. */
export function clusterFacts(known: EngineFacts, replicas: readonly ReplicaEntry[]): EngineFacts {
  if (replicas.length === 0) return known;
  return {
    ...known,
    ...replicas[0]!.facts,
    maxContext: Math.min(...replicas.map(({ facts }) => facts.maxContext)),
    poolTokens: Math.min(...replicas.map(({ facts }) => facts.poolTokens ?? Number.POSITIVE_INFINITY)),
    device: deviceText(replicas),
    deterministic: replicas.every(({ facts }) => facts.deterministic !== false),
  };
}

/**
 * What requests may name. Where replicas have different numbers under one name, those that most of them have are served, and the others'
 * replicas get no requests for it: one name, one set of numbers.
 */
export function clusterAdapters(replicas: readonly ReplicaEntry[]): AdapterInfo[] {
  const byName = new Map<string, Map<string, { readonly adapter: AdapterEntry; count: number }>>();
  for (const { adapters = [] } of replicas) {
    for (const adapter of adapters) {
      const versions = byName.get(adapter.name) ?? new Map();
      const version = versions.get(adapter.identity) ?? { adapter, count: 0 };
      version.count++;
      byName.set(adapter.name, versions.set(adapter.identity, version));
    }
  }
  const isBetter = (a: { adapter: AdapterEntry; count: number }, b: typeof a): boolean =>
    a.count > b.count || (a.count === b.count && a.adapter.identity < b.adapter.identity);
  return [...byName.values()]
    .map((versions) => [...versions.values()].reduce((best, other) => (isBetter(other, best) ? other : best)).adapter)
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map((adapter) => ({ ...adapter, path: adapter.name, isPinned: false }));
}

export function clusterStats(model: string, replicas: readonly ReplicaEntry[]): EngineStats {
  const sum = (read: (entry: ReplicaEntry) => number): number =>
    replicas.reduce((total, entry) => total + read(entry), 0);
  return {
    model,
    device: deviceText(replicas),
    running: sum(({ load }) => load.running),
    waiting: sum(({ load }) => load.waiting),
    steps: 0,
    pageSize: replicas[0]?.facts.pageSize ?? 0,
    pagesTotal: sum(({ load }) => load.pagesTotal),
    pagesFree: sum(({ load }) => load.pagesTotal - load.pagesUsed - load.pagesCached),
    pagesCached: sum(({ load }) => load.pagesCached),
    pagesUsed: sum(({ load }) => load.pagesUsed),
    cacheGroups: [],
    hostTier: null,
    deviceUsage: null,
    hostTimes: null,
    promptTokens: sum(({ load }) => load.promptTokens),
    cachedTokens: sum(({ load }) => load.cachedTokens),
    generatedTokens: sum(({ load }) => load.generatedTokens),
    paddingAvoided: 0,
    preemptions: 0,
    requestsFinished: sum(({ load }) => load.requestsFinished),
    adapters: [],
    adapterLimitBytes: 0,
    pictures: { encoded: 0, reused: 0, waiting: 0, bytes: 0 },
    speculation: { drafts: 0, draftTokens: 0, acceptedTokens: 0, acceptedPerPosition: [] },
  };
}

function deviceText(replicas: readonly ReplicaEntry[]): string {
  return `cluster: ${replicas.length} ${replicas.length === 1 ? "replica" : "replicas"}`;
}
