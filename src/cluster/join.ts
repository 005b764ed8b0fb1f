// Joining a cluster, as a replica or as a router: the connection, the inbox, the lease.

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { ClusterConfig, Role } from "../config/cluster-config.js";
import { packageVersion } from "../config/version.js";
import { ConfigError } from "../core/errors.js";
import type { RelayEngine } from "../engine/client/relay.js";
import { certificatesOf, connectNats } from "./bus/connection.js";
import { Mailbox } from "./bus/mailbox.js";
import { Subjects } from "./bus/subjects.js";
import { PROTOCOL } from "./bus/wire.js";
import { Lease } from "./membership/lease.js";
import { Members } from "./membership/members.js";
import { type ReplicaEntry, type RouterEntry, vocabularyHash } from "./membership/registration.js";
import { LoadGauge } from "./replica/load-gauge.js";
import { isLoopback, PagePort } from "./replica/page-port.js";
import { PeerPages } from "./replica/peer-pages.js";
import { Replica } from "./replica/replica.js";
import type { ReplicaLimits } from "./replica/served-calls.js";
import { Router } from "./router/router.js";

/** How long a replica that drains waits for another to take its hottest prefixes. */
const GIVE_AWAY_MS = 3000;

export interface ReplicaMember extends AsyncDisposable {
  readonly id: string;
  readonly replica: Replica;
  /** Hands calls over to other replicas: those that have begun after so long. */
  drain(ms: number): Promise<void>;
  close(): Promise<void>;
}

export interface ReplicaOptions extends ReplicaLimits {
  /** Where it serves HTTP. */
  readonly address: string;
  /** On which it lends pages. */
  readonly host: string;
  readonly role?: Role;
  readonly mailbox?: Mailbox;
}

/** Roles are of no use without pages that move. */
export function checkRole(config: ClusterConfig, { host, role = "both" }: Pick<ReplicaOptions, "host" | "role">): void {
  const canMove = config.pageTransfers && (config.natsTlsCert !== null || isLoopback(host));
  if (role === "both" || canMove) return;
  const expected = "both where pages cannot move: it needs pageTransfers and, off loopback, natsTlsCert";
  throw new ConfigError("invalid_option", { param: "role", value: role, expected });
}

export async function joinAsReplica(
  engine: RelayEngine,
  config: ClusterConfig,
  options: ReplicaOptions,
): Promise<ReplicaMember> {
  checkRole(config, options);
  const mailbox = options.mailbox ?? (await openMailbox(config));
  const leaseMs = config.leaseSeconds * 1000;
  const { slots, maxQueued, address, role = "both" } = options;
  const replica = new Replica(engine, mailbox, { slots, maxQueued });
  const port = await openPort(config, options.host);
  const members = new Members(mailbox);
  const addressOf = (id: string): string | null => members.get(id)?.pageAddress ?? null;
  const peers = port === null ? null : new PeerPages(engine, mailbox, port, replica.prefixes, addressOf);
  replica.peers = peers;
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
    protocol: PROTOCOL,
    role,
    facts: { ...facts, poolTokens: Number.isFinite(facts.poolTokens) ? facts.poolTokens : null },
    address,
    exchangesPages: peers !== null,
    pageAddress: port?.url ?? null,
    startedMs: Date.now(),
    leaseMs,
    slots,
    maxQueued,
  } as const;
  const lease = new Lease(mailbox, leaseMs);
  replica.onFull = () => lease.renewNow();
  // Says what it knows and asks nobody: an engine in a long step must not look dead.
  await lease.hold((): ReplicaEntry => {
    void gauge.refresh();
    const state = replica.isDraining
      ? "draining"
      : ["ready", "asleep"].includes(engine.health().state)
        ? "ready"
        : "restarting";
    const { numFetched: pagesFetched = 0, numFailed: fetchesFailed = 0 } = peers?.counts ?? {};
    const adapters = engine.adapters.map(({ name, identity, byteLength, maxRank }) => {
      return { name, identity, byteLength, maxRank };
    });
    return { ...fixed, adapters, state, load: { ...gauge.load(), ...replica.load(), pagesFetched, fetchesFailed } };
  });
  await members.start(lease);
  /** One that could go on in our place. */
  const heir = (): string | null => {
    const others = members.replicas().filter(({ id, state, facts, exchangesPages }) => {
      return id !== mailbox.member && state === "ready" && facts.identity === fixed.facts.identity && exchangesPages;
    });
    return others.sort((a, b) => a.load.pagesUsed - b.load.pagesUsed)[0]?.id ?? null;
  };
  const close = async (): Promise<void> => {
    await lease.end();
    replica.close();
    gauge.close();
    members.close();
    port?.close();
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
      members.expire();
      const next = heir();
      if (peers !== null && next !== null) await peers.giveAway(next, GIVE_AWAY_MS);
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
          protocol: PROTOCOL,
          startedMs,
          leaseMs,
          calls: router.numCalls,
          resumed: router.numResumed,
          prefilled: router.numPrefilled,
          lost: router.numLost,
        }),
      ),
  };
}

async function openPort(config: ClusterConfig, host: string): Promise<PagePort | null> {
  if (!config.pageTransfers) return null;
  const { ca, certificate } = certificatesOf(config);
  const tls = certificate === null ? null : { ca, ...certificate };
  return PagePort.open({ host, advertise: config.advertise, tls, secret: config.clusterSecret });
}

/** Every name but the random end is for people. */
export function openMailbox(config: ClusterConfig, Kind: typeof Mailbox = Mailbox): Promise<Mailbox> {
  const host = hostname()
    .replaceAll(/[^A-Za-z0-9]+/g, "-")
    .slice(0, 40);
  const member = `${host}-${randomBytes(5).toString("hex")}`;
  const subjects = new Subjects(config.cluster);
  return connectNats(config, `pagoda ${member}`).then((nats) => new Kind(nats, subjects, member, config.clusterSecret));
}

interface Vocabulary extends Pick<RelayEngine, "facts" | "eosIds"> {
  readonly tokenizer: Pick<RelayEngine["tokenizer"], "bytes">;
}

/** Ids that the tokenizer does not know are no text. */
export function vocabularyOf(engine: Vocabulary): string {
  const nothing = new Uint8Array(0);
  const bytesOf = (id: number): Uint8Array => {
    try {
      return engine.tokenizer.bytes(id);
    } catch {
      return nothing;
    }
  };
  return vocabularyHash(engine.facts.vocabSize, bytesOf, engine.eosIds);
}
