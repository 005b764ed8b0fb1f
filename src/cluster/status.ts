// The cluster as its bucket has it, read once: for `pagoda cluster status`.

import type { ClusterConfig } from "../config/cluster-config.js";
import { openMailbox } from "./join.js";
import { Lease } from "./lease.js";
import type { MemberEntry, ReplicaEntry, RouterEntry } from "./registration.js";

export interface ClusterStatus {
  readonly cluster: string;
  /** How many replicas of each model take requests. */
  readonly models: Readonly<Record<string, number>>;
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
  const models: Record<string, number> = {};
  for (const { model, state } of replicas) models[model] = (models[model] ?? 0) + (state === "ready" ? 1 : 0);
  return { cluster, models, replicas, routers };
}
