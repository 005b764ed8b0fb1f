// A router and replicas of a tiny model in one process, over a real NATS: for tests of what they say to each other.

import { after, before } from "node:test";
import { Mailbox } from "../../src/cluster/bus/mailbox.js";
import {
  joinAsReplica,
  joinAsRouter,
  openMailbox,
  type ReplicaMember,
  type RouterMember,
} from "../../src/cluster/join.js";
import type { ReplicaLimits } from "../../src/cluster/replica/served-calls.js";
import { choose, type Policy } from "../../src/cluster/router/choose.js";
import { createRoutedEngine } from "../../src/cluster/router/routed-engine.js";
import { type ClusterConfig, clusterConfig, type Role } from "../../src/config/cluster-config.js";
import { type EngineOptions, startEngine } from "../../src/engine/client/engine.js";
import type { RelayEngine } from "../../src/engine/client/relay.js";
import type { Engine, GenerateOptions } from "../../src/engine/types.js";
import { TestNats } from "./nats.js";
import { writeTinyCheckpoint } from "./tiny-checkpoint.js";
import { until } from "./until.js";

/** For tests in which nobody is to be missed: a busy machine may hold anybody up for a while. */
export const LONG_LEASE = 9;
/** For tests in which nobody gives up: it only ends what hangs. */
export const PATIENCE_MS = 240_000;
/** For tests in which somebody is. */
export const SHORT_LEASE = 1.5;
export const TINY_MODEL = writeTinyCheckpoint({ context: 16384 });

export function tinyEngine(options: Partial<EngineOptions> = {}): Promise<RelayEngine> {
  const small = { model: TINY_MODEL, device: "cpu", threads: 1, worker: false, numPages: 1100, seed: 1 } as const;
  return startEngine({ ...small, ...options });
}

/** For the tests of a file: a NATS, and an engine that nobody disturbs. They are there once the tests run, unless `skip` says why not. */
export function natsAndLone(skip: string | false): { readonly nats: TestNats; readonly lone: RelayEngine } {
  const both = {} as { nats: TestNats; lone: RelayEngine };
  before(async () => {
    if (skip === false) Object.assign(both, { nats: await TestNats.start(), lone: await tinyEngine() });
  });
  after(async () => {
    if (skip !== false) return;
    await both.lone.close();
    await both.nats[Symbol.asyncDispose]();
  });
  return both;
}

/** A prompt of so many letters, each one a token or so; `i` makes it differ from the first page on. */
export function story(i: number, length = 40): string {
  const words = `${i} once there was a cat who sat on a mat `;
  return words.repeat(Math.ceil(length / words.length)).slice(0, length);
}

export function drawn(i: number): GenerateOptions {
  return { maxTokens: 40, seed: i, temperature: 1, ignoreEos: true, logprobs: 2 };
}

/** All of an answer but how long it took. */
export async function whole(engine: Engine, i: number, more: GenerateOptions = {}): Promise<unknown> {
  const { samples } = await engine.generate(story(i), { ...drawn(i), ...more }).result();
  return samples;
}

export async function pagesUsed(engine: Engine): Promise<number> {
  return (await engine.stats()).pagesUsed;
}

export interface SmallReplica {
  readonly engine: RelayEngine;
  readonly member: ReplicaMember;
}

export interface ReplicaSpec {
  readonly role?: Role;
  readonly limits?: ReplicaLimits;
  readonly engine?: Partial<EngineOptions>;
  /** Where its NATS is, when not where all others have it. */
  readonly nats?: string;
}

export interface SmallClusterOptions {
  /** What the router serves, when not the tiny model. */
  readonly model?: string;
  readonly replicas?: readonly ReplicaSpec[];
  readonly Kind?: typeof Mailbox;
  readonly patienceMs?: number;
  readonly policy?: Policy;
  readonly prefillTokens?: number;
  readonly leaseSeconds?: number;
  readonly secret?: string;
  /** Where the router's NATS is. */
  readonly routerNats?: string;
}

export interface SmallRouter extends AsyncDisposable {
  readonly member: RouterMember;
  readonly engine: Engine;
}

let numClusters = 0;

export class SmallCluster implements AsyncDisposable {
  readonly config: ClusterConfig;
  readonly replicas: SmallReplica[] = [];
  readonly #options: SmallClusterOptions;
  #router: SmallRouter | null = null;

  private constructor(nats: string, options: SmallClusterOptions) {
    const { leaseSeconds = LONG_LEASE, secret: clusterSecret = null } = options;
    this.config = clusterConfig({ nats: [nats], cluster: `test-${numClusters++}`, leaseSeconds, clusterSecret });
    this.#options = options;
  }

  static async start(nats: string, options: SmallClusterOptions = {}): Promise<SmallCluster> {
    const cluster = new SmallCluster(nats, options);
    const { replicas = [{}], routerNats = nats } = options;
    for (const spec of replicas) await cluster.addReplica(spec);
    cluster.#router = await cluster.addRouter({ nats: routerNats });
    const { router } = cluster.#router.member;
    await until(() => router.replicas().length === replicas.length, "all replicas are known");
    return cluster;
  }

  /** Its answers come from the cluster. */
  get engine(): Engine {
    return this.#router!.engine;
  }

  get router(): RouterMember {
    return this.#router!.member;
  }

  async addReplica(spec: ReplicaSpec = {}): Promise<SmallReplica> {
    const { role = "both", limits = { slots: 64, maxQueued: 64 } } = spec;
    const engine = await tinyEngine(spec.engine);
    const config = { ...this.config, ...(spec.nats === undefined ? {} : { nats: [spec.nats] }) };
    const mailbox = await openMailbox(config, this.#options.Kind ?? Mailbox);
    const options = { ...limits, role, address: "none", host: "127.0.0.1", mailbox };
    const replica = { engine, member: await joinAsReplica(engine, config, options) };
    this.replicas.push(replica);
    return replica;
  }

  async addRouter(own: { readonly nats?: string; readonly patienceMs?: number } = {}): Promise<SmallRouter> {
    const { Kind = Mailbox, policy = choose, prefillTokens = 512, model = TINY_MODEL } = this.#options;
    const { nats = this.config.nats[0]!, patienceMs = this.#options.patienceMs ?? PATIENCE_MS } = own;
    const config = { ...this.config, nats: [nats] };
    const member = await joinAsRouter(config, await openMailbox(config, Kind));
    const options = { model, cluster: config.cluster, patienceMs, policy, prefillTokens };
    const engine = await createRoutedEngine(member.router, options);
    return {
      member,
      engine,
      [Symbol.asyncDispose]: async () => {
        await engine.close();
        await member.close();
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#router?.[Symbol.asyncDispose]();
    for (const { member, engine } of this.replicas) {
      await member.close();
      await engine.close();
    }
  }
}
