// Replicas taken together: in the words of one engine, and for whoever asks for the cluster's status.

import assert from "node:assert/strict";
import { test } from "node:test";
import { entryOf } from "../../../test/support/told-cluster.js";
import type { EngineFacts } from "../../engine/messages.js";
import { clusterFacts, clusterStats } from "../router/cluster-stats.js";
import type { MemberEntry } from "./registration.js";
import { statusOf } from "./status.js";

const load = (times: number) => ({
  ...{ running: times, waiting: 2 * times, pagesTotal: 100 * times, pagesUsed: 30 * times, pagesCached: 7 * times },
  ...{ promptTokens: 3 * times, cachedTokens: 4 * times, generatedTokens: 5 * times, requestsFinished: 6 * times },
  ...{ callsFailed: 8 * times, callsRefused: 9 * times, pagesFetched: 10 * times, fetchesFailed: 11 * times },
  calls: { count: 12 * times, queued: [] },
});

test("facts are those of the first replica, limits those that every replica keeps", () => {
  const known = { device: "none", maxContext: 4096, pageSize: 16, vocabSize: 9 } as unknown as EngineFacts;
  assert.equal(clusterFacts(known, []), known);
  const replicas = [
    entryOf("a", { facts: { maxContext: 300, poolTokens: 900, pageSize: 8 } }),
    entryOf("b", { facts: { maxContext: 200, poolTokens: 700 } }),
    entryOf("c", { facts: { maxContext: 400, poolTokens: null } }),
  ];
  assert.deepEqual(clusterFacts(known, replicas), {
    ...{ vocabSize: 9, pageSize: 8, pageBytes: 64, identity: "same", maxContext: 200, poolTokens: 700 },
    device: "cluster: 3 replicas",
    deterministic: true,
  });
  const loose = entryOf("d", { facts: { deterministic: false } });
  assert.equal(clusterFacts(known, [...replicas, loose]).deterministic, false);
  const { device, poolTokens } = clusterFacts(known, replicas.slice(2));
  assert.deepEqual([device, poolTokens], ["cluster: 1 replica", Number.POSITIVE_INFINITY]);
});

test("statistics are sums over the replicas", () => {
  const entries = [entryOf("a", { load: load(1), facts: { pageSize: 8 } }), entryOf("b", { load: load(10) })];
  const unknown = {
    cacheGroups: [],
    hostTier: null,
    deviceUsage: null,
    hostTimes: null,
    adapters: [],
    adapterLimitBytes: 0,
    pictures: { bytes: 0, encoded: 0, reused: 0, waiting: 0 },
  };
  const speculation = { drafts: 0, draftTokens: 0, acceptedTokens: 0, acceptedPerPosition: [] };
  const pictures = { encoded: 0, reused: 0, waiting: 0, bytes: 0 };
  const uncounted = { steps: 0, paddingAvoided: 0, preemptions: 0, speculation, pictures };
  assert.deepEqual(clusterStats("m", entries), {
    ...{ model: "m", device: "cluster: 2 replicas", pageSize: 8, running: 11, waiting: 22, ...unknown, ...uncounted },
    ...{ pagesTotal: 1100, pagesFree: 693, pagesCached: 77, pagesUsed: 330, promptTokens: 33, cachedTokens: 44 },
    ...{ generatedTokens: 55, requestsFinished: 66 },
  });
  const nobody = clusterStats("m", []);
  assert.deepEqual([nobody.pageSize, nobody.running, nobody.device], [0, 0, "cluster: 0 replicas"]);
});

test("a cluster's status has its members in the order they came, and every model's replicas counted by state", () => {
  const router = (id: string, startedMs: number) => ({ kind: "router", id, startedMs }) as unknown as MemberEntry;
  const entries = [
    entryOf("c", { startedMs: 5, load: load(1) }),
    router("r", 4),
    entryOf("b", { startedMs: 5, state: "draining", load: load(10), facts: { identity: "older" } }),
    entryOf("a", { startedMs: 7, state: "restarting" }),
    router("q", 2),
    entryOf("d", { startedMs: 1, model: "other" }),
  ];
  const status = statusOf("name", entries);
  assert.deepEqual(
    [status.cluster, status.replicas.map(({ id }) => id), status.routers.map(({ id }) => id)],
    ["name", ["d", "b", "c", "a"], ["q", "r"]],
  );
  const none = { waiting: 0, promptTokens: 0, cachedTokens: 0, requestsFinished: 0, callsFailed: 0, callsRefused: 0 };
  assert.deepEqual(status.models, {
    m: {
      ...{ ready: 1, draining: 1, restarting: 1, versions: 2, calls: 132, waiting: 22, promptTokens: 33 },
      ...{ cachedTokens: 44, requestsFinished: 66, callsFailed: 88, callsRefused: 99, pagesFetched: 110 },
      fetchesFailed: 121,
    },
    other: { ready: 1, draining: 0, restarting: 0, versions: 1, calls: 0, ...none, pagesFetched: 0, fetchesFailed: 0 },
  });
});
