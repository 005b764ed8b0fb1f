// What a member says of itself in the cluster's bucket, again and again while it lives.

import { createHash } from "node:crypto";
import type { Role } from "../../config/cluster-config.js";
import type { EngineFacts } from "../../engine/messages.js";
import type { AdapterInfo } from "../../engine/types.js";
import type { Queued } from "../router/backlog.js";

export interface ReplicaEntry {
  readonly kind: "replica";
  readonly id: string;
  /** The model's own name: what routers ask for. */
  readonly model: string;
  /** Of what every token is as text: a router must have the same. */
  readonly vocabulary: string;
  readonly version: string;
  /** What it says and understands (wire.ts). */
  readonly protocol: number;
  /** What routers send it: whole requests, or only their prompts to compute, or those whose prompts others compute. */
  readonly role: Role;
  readonly facts: ReplicaFacts;
  /** Those that requests may name there; absent: none. */
  readonly adapters?: readonly AdapterEntry[];
  /** It gives and takes pages. */
  readonly exchangesPages: boolean;
  /** Where it lends them: what another address says is never fetched in its name. */
  readonly pageAddress?: string | null;
  /** Where it serves HTTP. */
  readonly address: string;
  readonly startedMs: number;
  readonly leaseMs: number;
  readonly state: "ready" | "draining" | "restarting";
  /** Calls that run at once, and that may wait beside them. */
  readonly slots: number;
  readonly maxQueued: number;
  readonly load: ReplicaLoad;
}

/** What its engine says of itself. Engines that agree in `identity` give the same bits, and may exchange pages. */
export interface ReplicaFacts extends Omit<EngineFacts, "config" | "poolTokens"> {
  /** null: no limit beside maxContext. */
  readonly poolTokens: number | null;
}

/** Tokens of the longest sequence that a replica can hold. */
export function longestOf({ facts }: ReplicaEntry): number {
  return Math.min(facts.maxContext, facts.poolTokens ?? Number.POSITIVE_INFINITY);
}

/** An adapter that a replica serves. Those of one identity give the same bits. */
export type AdapterEntry = Pick<AdapterInfo, "name" | "identity" | "byteLength" | "maxRank">;

/** The replica serves these numbers under this name. */
export function holds({ adapters = [] }: ReplicaEntry, { name, identity }: Pick<AdapterEntry, "name" | "identity">) {
  return adapters.some((own) => own.name === name && own.identity === identity);
}

export interface CallLoad {
  /** Calls that are here now. */
  readonly count: number;
  /** Those of them that have not begun to answer. */
  readonly queued: Queued;
}

export interface ReplicaLoad {
  /** Of all routers, and of each: a router knows its own better. */
  readonly calls: CallLoad;
  readonly callsOf: Readonly<Record<string, CallLoad>>;
  /** Prompt tokens that it computes in a second. */
  readonly tokensPerSecond: number;
  /** Of a call's stay, lately. */
  readonly meanCallMs: number;
  readonly running: number;
  readonly waiting: number;
  readonly pagesUsed: number;
  readonly pagesTotal: number;
  readonly pagesCached: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  readonly requestsFinished: number;
  /** Calls that ended with an error, and that were turned away for want of room. */
  readonly callsFailed: number;
  readonly callsRefused: number;
  /** Pages that came from other replicas, and transfers that failed. */
  readonly pagesFetched: number;
  readonly fetchesFailed: number;
}

export interface RouterEntry {
  readonly kind: "router";
  readonly id: string;
  readonly version: string;
  readonly protocol: number;
  readonly address: string;
  readonly startedMs: number;
  readonly leaseMs: number;
  readonly models: readonly string[];
  readonly calls: number;
  /** Calls that went on elsewhere after a replica was lost or drained. */
  readonly resumed: number;
  /** Prompts that a prefill replica computed for another. */
  readonly prefilled: number;
  /** Replicas that left or were not heard any more. */
  readonly lost: number;
}

export type MemberEntry = ReplicaEntry | RouterEntry;

/** A name for the vocabulary: two that agree in it turn the same tokens into the same bytes, and end answers at the same tokens. */
export function vocabularyHash(
  vocabSize: number,
  tokenBytes: (id: number) => Uint8Array,
  eosIds: readonly number[],
): string {
  const hash = createHash("sha256").update(JSON.stringify([vocabSize, [...eosIds].sort((a, b) => a - b)]));
  const length = new Int32Array(1);
  for (let id = 0; id < vocabSize; id++) {
    const bytes = tokenBytes(id);
    length[0] = bytes.length;
    hash.update(length).update(bytes);
  }
  return hash.digest("hex").slice(0, 32);
}
