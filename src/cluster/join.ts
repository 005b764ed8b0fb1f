// Joining a cluster, as a replica or as a router: the connection, the inbox, the lease.

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { ClusterConfig } from "../config/cluster-config.js";
import { packageVersion } from "../config/version.js";
import type { RelayEngine } from "../engine/client/relay.js";
import { connectNats } from "./connection.js";
import { Lease } from "./lease.js";
import { LoadGauge } from "./load-gauge.js";
import { Mailbox } from "./mailbox.js";
import { Members } from "./members.js";
import { type ReplicaEntry, type RouterEntry, vocabularyHash } from "./registration.js";
import { Replica, type ReplicaLimits } from "./replica.js";
import { Router } from "./router.js";
import { Subjects } from "./subjects.js";

export interface ReplicaMember extends AsyncDisposable {
  readonly id: string;
  readonly replica: Replica;
  /** Hands calls over to other replicas: those that have begun after so long. */
  drain(ms: number): Promise<void>;
  close(): Promise<void>;
}

export async function joinAsReplica(
  engine: RelayEngine,
  config: ClusterConfig,
  options: ReplicaLimits & { readonly address: string; readonly mailbox?: Mailbox },
): Promise<ReplicaMember> {
  const mailbox = options.mailbox ?? (await openMailbox(config));
  const leaseMs = config.leaseSeconds * 1000;
  const { slots, maxQueued, address } = options;
  const replica = new Replica(engine, mailbox, { slots, maxQueued });
  const gauge = new LoadGauge(engine);
  await gauge.refresh();
  const { model } = engine;
  const { config: _, ...facts } = engine.facts;
  const fixed = {
    kind: "replica",
    id: mailbox.member,
    model: model.name,
    vocabulary: vocabularyOf(engine),
    version: packageVersion(),
    facts: { ...facts, poolTokens: Number.isFinite(facts.poolTokens) ? facts.poolTokens : null },
    address,
    startedMs: Date.now(),
    leaseMs,
    slots,
    maxQueued,
  } as const;
  const lease = new Lease(mailbox, leaseMs);
  // Says what it knows and asks nobody: an engine in a long step must not look dead.
  await lease.hold((): ReplicaEntry => {
    void gauge.refresh();
    const state = replica.isDraining ? "draining" : engine.health().state === "ready" ? "ready" : "restarting";
    const { numCalls: calls, backlogTokens, meanCallMs } = replica;
    return { ...fixed, state, load: { ...gauge.load(), calls, backlogTokens, meanCallMs } };
  });
  const close = async (): Promise<void> => {
    await lease.end();
    replica.close();
    gauge.close();
    await mailbox.close();
  };
  return {
    id: mailbox.member,
    replica,
    close,
    [Symbol.asyncDispose]: close,
    drain: async (ms) => {
      const drained = replica.drain(ms);
      await lease.renew(); // routers hear of it before the next call is sent
      await drained;
    },
  };
}

export interface RouterMember extends AsyncDisposable {
  readonly router: Router;
  /** Tells the cluster of it; requests can be routed before. */
  register(entry: Pick<RouterEntry, "address" | "models">): Promise<void>;
  close(): Promise<void>;
}

export async function joinAsRouter(config: ClusterConfig, given: Mailbox | null = null): Promise<RouterMember> {
  const mailbox = given ?? (await openMailbox(config));
  const leaseMs = config.leaseSeconds * 1000;
  const lease = new Lease(mailbox, leaseMs);
  const members = new Members(mailbox);
  const router = new Router(mailbox, members, leaseMs);
  await members.start(lease);
  const startedMs = Date.now();
  const close = async (): Promise<void> => {
    await lease.end();
    router.close();
    await mailbox.close();
  };
  return {
    router,
    close,
    [Symbol.asyncDispose]: close,
    register: (said) =>
      lease.hold(
        (): RouterEntry => ({
          ...said,
          kind: "router",
          id: mailbox.member,
          version: packageVersion(),
          startedMs,
          leaseMs,
          calls: router.numCalls,
          resumed: router.numResumed,
        }),
      ),
  };
}

/** Every name but the random end is for people. */
export function openMailbox(config: ClusterConfig, Kind: typeof Mailbox = Mailbox): Promise<Mailbox> {
  const host = hostname()
    .replaceAll(/[^A-Za-z0-9]+/g, "-")
    .slice(0, 40);
  const member = `${host}-${randomBytes(5).toString("hex")}`;
  const subjects = new Subjects(config.cluster);
  return connectNats(config, `pagoda ${member}`).then((nats) => new Kind(nats, subjects, member));
}

/** Ids that the tokenizer does not know are no text. */
export function vocabularyOf(engine: Pick<RelayEngine, "facts" | "eosIds" | "tokenBytes">): string {
  const nothing = new Uint8Array(0);
  const bytesOf = (id: number): Uint8Array => {
    try {
      return engine.tokenBytes(id);
    } catch {
      return nothing;
    }
  };
  return vocabularyHash(engine.facts.vocabSize, bytesOf, engine.eosIds);
}
