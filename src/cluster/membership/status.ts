// The cluster as its bucket has it, read once: for `pagoda cluster status`.

import type { ClusterConfig } from "../../config/cluster-config.js";
import { openMailbox } from "../join.js";
import { Lease } from "./lease.js";
import type { MemberEntry, ReplicaEntry, ReplicaLoad, RouterEntry } from "./registration.js";

/** All replicas of a model taken together. */
export interface ModelStatus {
  /** Replicas by what they are doing. Only those that are ready take requests. */
  readonly ready: number;
  readonly draining: number;
  readonly restarting: number;
  /** Identities among them: replicas of one exchange pages and go on with each other's answers. */
  readonly versions: number;
  readonly calls: number;
  readonly waiting: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly requestsFinished: number;
  readonly callsFailed: number;
  readonly callsRefused: number;
  readonly pagesFetched: number;
  readonly fetchesFailed: number;
}

export interface ClusterStatus {
  readonly cluster: string;
  readonly models: Readonly<Record<string, ModelStatus>>;
  readonly replicas: readonly ReplicaEntry[];
  readonly routers: readonly RouterEntry[];
}

export async function readStatus(config: ClusterConfig): Promise<ClusterStatus> {
  const mailbox = await openMailbox(config);
  try {
    return statusOf(config.cluster, await new Lease(mailbox, config.leaseSeconds * 1000).list());
  } finally {
    await mailbox.close();
  }
}

export function statusOf(cluster: string, entries: readonly MemberEntry[]): ClusterStatus {
  const byStart = [...entries].sort((a, b) => a.startedMs - b.startedMs || a.id.localeCompare(b.id));
  const replicas = byStart.filter((entry) => entry.kind === "replica");
  const routers = byStart.filter((entry) => entry.kind === "router");
  const models: Record<string, ModelStatus> = {};
  for (const model of new Set(replicas.map((entry) => entry.model)))
    models[model] = modelStatus(replicas.filter((entry) => entry.model === model));
  return { cluster, models, replicas, routers };
}

function modelStatus(replicas: readonly ReplicaEntry[]): ModelStatus {
  const sum = (read: (load: ReplicaLoad) => number): number =>
    replicas.reduce((total, { load }) => total + read(load), 0);
  const inState = (wanted: ReplicaEntry["state"]): number => replicas.filter(({ state }) => state === wanted).length;
  return {
    ready: inState("ready"),
    draining: inState("draining"),
    restarting: inState("restarting"),
    versions: new Set(replicas.map(({ facts }) => facts.identity)).size,
    calls: sum(({ calls }) => calls.count),
    waiting: sum(({ waiting }) => waiting),
    promptTokens: sum(({ promptTokens }) => promptTokens),
    cachedTokens: sum(({ cachedTokens }) => cachedTokens),
    requestsFinished: sum(({ requestsFinished }) => requestsFinished),
    callsFailed: sum(({ callsFailed }) => callsFailed),
    callsRefused: sum(({ callsRefused }) => callsRefused),
    pagesFetched: sum(({ pagesFetched }) => pagesFetched),
    fetchesFailed: sum(({ fetchesFailed }) => fetchesFailed),
  };
}
