// Where a call of one model goes: which replicas could serve it, and from which of them its first token is expected soonest. Knows roles and
// identities; what a choice costs is in choose.ts.
//
//   replicas of the model ─> ready, large enough, with the adapter, and, once the answer has begun, of the identity that began it
//                         ─> those that answer (any role but prefill); prefill replicas only when no other is left
//   a long prompt          ─> a prefill replica first, whose pages the one that answers then fetches

import { CapacityError } from "../../core/errors.js";
import { holds, longestOf, type ReplicaEntry } from "../membership/registration.js";
import { type Candidate, choose, type Policy, retryAfterSeconds, withFetch, worthPrefill } from "./choose.js";
import type { RoutedCall } from "./routed-call.js";
import type { Router } from "./router.js";

export interface PlacementOptions {
  /** The model's own name. */
  readonly model: string;
  readonly vocabulary: string;
  /** Prompt tokens nobody holds from which on they are computed by a prefill replica. */
  readonly prefillTokens: number;
  /** How a replica is chosen, when not by `choose`: for those who compare ways to do it. */
  readonly policy?: Policy | undefined;
}

/** The replica that a request goes to, and all that could have been chosen. */
export interface Choice {
  readonly chosen: Candidate;
  readonly candidates: readonly Candidate[];
}

export class Placement {
  readonly #router: Router;
  readonly #options: PlacementOptions;
  readonly #policy: Policy;
  #all: readonly ReplicaEntry[] = [];
  #ofModel: readonly ReplicaEntry[] = []; // of them

  constructor(router: Router, options: PlacementOptions) {
    this.#router = router;
    this.#options = options;
    this.#policy = options.policy ?? choose;
  }

  /** All that serve the model, whatever their state. */
  replicas(): readonly ReplicaEntry[] {
    const all = this.#router.replicas();
    if (all !== this.#all) {
      const { model, vocabulary } = this.#options;
      this.#all = all;
      this.#ofModel = all.filter((entry) => entry.model === model && entry.vocabulary === vocabulary);
    }
    return this.#ofModel;
  }

  /** null: none can take it now. An error: all that could are full, and it has not begun. */
  choose(call: RoutedCall): Choice | CapacityError | null {
    const able = this.#able(call, call.mostTokens);
    const answering = able.filter(({ role }) => role !== "prefill");
    const candidates = this.#candidates(call, answering.length > 0 ? answering : able);
    if (candidates.length === 0) return null;
    const { refusedBy } = call;
    const willing = refusedBy.size === 0 ? candidates : candidates.filter(({ id }) => !refusedBy.has(id));
    const best = this.#policy(willing, call.message.prompt.length, Math.random());
    if (best !== null) return { chosen: best, candidates };
    if (call.hasBegun) {
      call.refusedBy.clear();
      return null;
    }
    const value = candidates.reduce((sum, { calls }) => sum + calls, 0);
    const limit = candidates.reduce((sum, { slots, maxQueued }) => sum + slots + maxQueued, 0);
    return new CapacityError("queue_full", { value, limit, retryAfter: retryAfterSeconds(candidates) });
  }

  /** The prefill replica that computes the prompt for the one that was chosen to answer. null: that one computes it itself. */
  choosePrefill(call: RoutedCall, { chosen }: Choice): Choice | null {
    const { prompt, kind, sampling } = call.message;
    if (call.wasPrefilled || call.hasBegun || kind !== "generate" || sampling.promptLogprobs !== null) return null;
    if (prompt.length - chosen.heldTokens - (chosen.fetch?.tokens ?? 0) < this.#options.prefillTokens) return null;
    const { facts, role, exchangesPages } = this.#entry(chosen.id);
    if (!exchangesPages || role === "prefill") return null;
    const able = this.#able(call, prompt.length + 1).filter((entry) => {
      return entry.role === "prefill" && entry.exchangesPages && entry.facts.identity === facts.identity;
    });
    const candidates = this.#candidates(call, able);
    const best = this.#policy(candidates, prompt.length, Math.random());
    if (best === null || call.refusedBy.has(best.id)) return null;
    const bytesPerToken = facts.pageBytes / facts.pageSize;
    return worthPrefill(chosen, best, prompt.length, bytesPerToken) ? { chosen: best, candidates } : null;
  }

  #entry(id: string): ReplicaEntry {
    return this.#router.replicas().find((entry) => entry.id === id)!;
  }

  /** Replicas that can hold so many tokens of the call. One that has begun goes on where its bits are the same, or nowhere. */
  #able(call: RoutedCall, numTokens: number): ReplicaEntry[] {
    if (!this.#router.mailbox.isConnected) return [];
    const { hasBegun, identity, adapter } = call;
    return this.replicas().filter((entry) => {
      if (adapter !== null && !holds(entry, adapter)) return false;
      const isAlike = !hasBegun || entry.facts.identity === identity;
      return isAlike && entry.state === "ready" && longestOf(entry) >= numTokens;
    });
  }

  /** Each with what it holds of the prompt and could get of it from the one that holds most. */
  #candidates(call: RoutedCall, able: readonly ReplicaEntry[]): Candidate[] {
    const bySize = new Map<number, ReadonlyMap<string, number>>();
    let pageSize = 0; // of the last one; mostly the same for all
    let held: ReadonlyMap<string, number> = new Map();
    const candidateOf = ({ id, facts }: ReplicaEntry): Candidate => {
      if (facts.pageSize !== pageSize) {
        pageSize = facts.pageSize;
        held = bySize.get(pageSize) ?? this.#router.match(call.keysFor(pageSize));
        bySize.set(pageSize, held);
      }
      return this.#router.candidate(id, held.get(id) ?? 0, call.message.priority);
    };
    const fullest = new Map<string, Candidate>(); // by identity: pages of one are of no use to another
    for (const entry of this.#able(call, 0)) {
      if (!entry.exchangesPages) continue;
      const candidate = candidateOf(entry);
      const most = fullest.get(entry.facts.identity);
      if (most === undefined || candidate.heldTokens > most.heldTokens) fullest.set(entry.facts.identity, candidate);
    }
    return able.map((entry) => {
      const { facts, exchangesPages } = entry;
      const peer = fullest.get(facts.identity);
      const candidate = candidateOf(entry);
      if (!exchangesPages || peer === undefined) return candidate;
      return withFetch(candidate, peer, facts.pageBytes / facts.pageSize);
    });
  }
}
