import assert from "node:assert/strict";
import { test } from "node:test";
import { SAMPLING_DEFAULTS } from "../../core/sampling.js";
import type { AddMessage } from "../../engine/messages.js";
import type { ReplicaEntry } from "../membership/registration.js";
import type { Candidate } from "./choose.js";
import { type Choice, Placement } from "./placement.js";
import { RoutedCall } from "./routed-call.js";
import type { Router } from "./router.js";

const PAGE_SIZE = 16;

interface Replica {
  readonly id: string;
  readonly heldPages?: number;
  readonly calls?: number;
  readonly exchangesPages?: boolean;
  readonly role?: ReplicaEntry["role"];
  readonly state?: ReplicaEntry["state"];
  readonly identity?: string;
  readonly maxContext?: number;
}

/** Placement among replicas that a router sees so. */
function placementAmong(replicas: readonly Replica[]): Placement {
  const entries = replicas.map((replica) => {
    const { id, exchangesPages = true, role = "both", state = "ready", identity = "same", maxContext = 4096 } = replica;
    const facts = { pageSize: PAGE_SIZE, pageBytes: 1600, identity, maxContext, poolTokens: null };
    return { id, model: "m", vocabulary: "v", exchangesPages, role, state, facts } as unknown as ReplicaEntry;
  });
  const view = {
    mailbox: { isConnected: true },
    replicas: () => entries,
    match: () => new Map(replicas.map(({ id, heldPages = 0 }) => [id, heldPages])),
    candidate: (id: string, heldPages: number): Candidate => ({
      id,
      heldTokens: heldPages * PAGE_SIZE,
      calls: replicas.find((replica) => replica.id === id)!.calls ?? 0,
      slots: 4,
      maxQueued: 4,
      backlogTokens: 0,
      tokensPerSecond: 100,
      meanCallMs: 1000,
    }),
  };
  return new Placement(view as unknown as Router, { model: "m", vocabulary: "v", prefillTokens: 256 });
}

const callOf = (): RoutedCall =>
  new RoutedCall({
    type: "add",
    callId: "call",
    kind: "generate",
    prompt: Int32Array.from({ length: 1000 }, (_, i) => i),
    sampling: { ...SAMPLING_DEFAULTS, maxTokens: 10, seed: 1 },
    priority: 0,
    salt: "",
    arrivalMs: 0,
    constraint: null,
  } satisfies AddMessage);

const chosenAmong = (replicas: readonly Replica[], call = callOf()): Candidate =>
  (placementAmong(replicas).choose(call) as Choice).chosen;

test("pages come from the fullest of the same identity, past those that give none", () => {
  const holder = { id: "holder", heldPages: 60, calls: 8 }; // full: it cannot answer itself
  const mute = { id: "mute", exchangesPages: false, calls: 8 };
  const near = chosenAmong([mute, { id: "some", heldPages: 20, calls: 8 }, holder, { id: "near" }]);
  assert.deepEqual([near.id, near.fetch?.peer, near.fetch?.tokens], ["near", "holder", 960]);
  assert.equal(chosenAmong([holder, { id: "other", identity: "another" }]).fetch, undefined);
  assert.equal(chosenAmong([holder, { id: "deaf", exchangesPages: false }]).fetch, undefined);
});

test("only who is ready and large enough is asked; prefill replicas answer when no other is left", () => {
  const small = { id: "small", maxContext: 1000 };
  const leaving = { id: "leaving", state: "draining" } as const;
  const prefill = { id: "prefill", role: "prefill" } as const;
  assert.equal(chosenAmong([small, leaving, prefill, { id: "busy", calls: 3 }]).id, "busy");
  assert.equal(chosenAmong([small, leaving, prefill]).id, "prefill");
  assert.equal(placementAmong([small, leaving]).choose(callOf()), null);
});

test("an answer that has begun goes on at its identity alone; one that all have refused is full, unless it has begun", () => {
  const begun = callOf();
  begun.identity = "same";
  begun.take({ id: "a", at: 0, tokens: [7] });
  assert.equal(
    chosenAmong(
      [
        { id: "other", identity: "another" },
        { id: "alike", calls: 3 },
      ],
      begun,
    ).id,
    "alike",
  );
  const placement = placementAmong([{ id: "a" }, { id: "b" }]);
  for (const call of [begun, callOf()]) call.refusedBy.add("a").add("b");
  assert.equal(placement.choose(begun), null);
  assert.equal(begun.refusedBy.size, 0, "they may have room the next time");
  const refused = callOf();
  refused.refusedBy.add("a").add("b");
  assert.deepEqual((placement.choose(refused) as { details: object }).details, { value: 0, limit: 16, retryAfter: 1 });
});

test("a prompt that nobody holds is computed by a prefill replica, where there is one that can give its pages", () => {
  const a = { id: "a" };
  const p = { id: "p", role: "prefill" } as const;
  const prefillOf = (replicas: readonly Replica[], call = callOf(), more: Partial<Candidate> = {}): string | null => {
    const placement = placementAmong(replicas);
    const { chosen, candidates } = placement.choose(call) as Choice;
    const { fetch: _, ...plain } = chosen;
    return placement.choosePrefill(call, { chosen: { ...plain, ...more }, candidates })?.chosen.id ?? null;
  };
  const holder = { ...p, heldPages: 60 };
  assert.equal(prefillOf([a, p]), "p");
  assert.equal(prefillOf([a]), null);
  assert.equal(prefillOf([p]), null, "it answers itself");
  assert.equal(prefillOf([{ ...a, exchangesPages: false }, p]), null);
  assert.equal(prefillOf([a, { ...p, exchangesPages: false }]), null);
  assert.equal(prefillOf([a, { ...p, identity: "another" }]), null);
  assert.deepEqual(
    [1000, 1001].map((maxContext) => prefillOf([a, { ...p, maxContext }])),
    [null, "p"],
  );
  assert.deepEqual(
    [744, 745].map((heldTokens) => prefillOf([a, holder], callOf(), { heldTokens })),
    ["p", null],
  );
  const fetching = (tokens: number) => ({ heldTokens: 0, fetch: { peer: "x", tokens, ms: 1 } });
  assert.deepEqual(
    [744, 745].map((tokens) => prefillOf([a, holder], callOf(), fetching(tokens))),
    ["p", null],
  );
  const refused = callOf();
  refused.refusedBy.add("p");
  const prefilled = callOf();
  prefilled.wasPrefilled = true;
  const begun = callOf();
  begun.identity = "same";
  begun.take({ id: "0", at: 0, tokens: [1] });
  const { message } = callOf();
  const pooled = new RoutedCall({ ...message, kind: "pool" });
  const scored = new RoutedCall({ ...message, sampling: { ...message.sampling, promptLogprobs: 0 } });
  for (const call of [refused, prefilled, begun, pooled, scored]) assert.equal(prefillOf([a, p], call), null);
  const full = placementAmong([
    { ...a, calls: 8 },
    { id: "b", calls: 8 },
  ]).choose(callOf()) as { details: object };
  assert.deepEqual(full.details, { value: 16, limit: 16, retryAfter: 2 });
});
