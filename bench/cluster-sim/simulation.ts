// A day of a cluster in virtual time: the router's own choice and prefix map, the replicas' own schedulers and caches, events in order.

import type { Candidate, Policy } from "../../src/cluster/choose.js";
import { PrefixMap, pageKeys } from "../../src/cluster/prefix-map.js";
import { wordsToText } from "../../src/cluster/wire.js";
import { makeRandom } from "../../test/support/random.js";
import { PAGE_SIZE, type Served, SimulatedReplica, STEP_COST } from "./simulated-replica.js";
import { Traffic, type TrafficOptions, type Turn } from "./traffic.js";

export interface SimulationOptions extends TrafficOptions {
  readonly numReplicas: number;
  readonly pagesPerReplica: number;
  readonly seed: number;
}

export interface SimulationResult {
  readonly numRequests: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly ttftMs: readonly number[];
  /** Requests in a second whose first token came within a second and the others 50 ms apart or less on average. */
  readonly goodput: number;
  /** Share of prompt tokens that were cached, in each twenty-fourth of the day. */
  readonly hitRateByHour: readonly number[];
}

const PUBLISH_MS = 100;
const SLOTS = 64;
const GOOD = { ttftMs: 1000, tpotMs: 50 } as const;
const TOKENS_PER_SECOND = 1000 / STEP_COST.tokenMs;

type Event = { readonly atMs: number } & (
  | { readonly type: "arrival"; readonly turn: Turn; readonly isFirst: boolean }
  | { readonly type: "step"; readonly replica: number }
  | { readonly type: "publish" }
);

export function simulate(options: SimulationOptions, policy: Policy): SimulationResult {
  const { numReplicas, pagesPerReplica, seed, dayMs } = options;
  const random = makeRandom(seed);
  const uniform = (): number => random(2 ** 30) / 2 ** 30;
  const conversations = new Traffic(options, makeRandom(seed + 1)).conversations();
  let nowMs = 0;
  const replicas = Array.from(
    { length: numReplicas },
    (_, i) => new SimulatedReplica(String(i), pagesPerReplica, () => nowMs),
  );
  const map = new PrefixMap(() => undefined);
  for (const { id } of replicas) {
    map.open(id);
    map.take(id, { type: "prefixes", epoch: 1, seq: 0, isSnapshot: true, changes: "" });
  }
  const seqs = new Int32Array(numReplicas);
  const events = new EventQueue();
  const ttftMs: number[] = [];
  const hours = Array.from({ length: 24 }, () => ({ prompt: 0, cached: 0 }));
  let numGood = 0;
  let numCalls = 0;

  const nextConversation = (): void => {
    const { value, done } = conversations.next();
    if (done !== true) events.push({ atMs: value.atMs, type: "arrival", turn: value.turn, isFirst: true });
  };
  const beginStep = (index: number): void => {
    const ms = replicas[index]!.begin();
    if (ms !== null) events.push({ atMs: nowMs + ms, type: "step", replica: index });
  };
  const arrive = (turn: Turn): void => {
    const prompt = SimulatedReplica.prompt(turn);
    const keys = pageKeys(prompt, "", PAGE_SIZE);
    const held = map.match(keys, nowMs);
    const candidates = replicas.map(
      ({ id, calls, backlogTokens }): Candidate => ({
        id,
        heldTokens: (held.get(id) ?? 0) * PAGE_SIZE,
        calls: calls.size,
        slots: SLOTS,
        maxQueued: 1024,
        backlogTokens,
        tokensPerSecond: TOKENS_PER_SECOND,
        meanCallMs: 4000,
      }),
    );
    const chosen = policy(candidates, prompt.length, uniform())!;
    const index = Number(chosen.id);
    map.expect(chosen.id, keys, nowMs);
    const replica = replicas[index]!;
    replica.add(String(numCalls++), turn, nowMs, prompt);
    replica.backlogTokens += turn.promptTokens - chosen.heldTokens;
    if (!replica.isBusy) beginStep(index);
  };
  const finish = ({ turn, request, arrivalMs, firstMs }: Served): void => {
    const ttft = firstMs - arrivalMs;
    ttftMs.push(ttft);
    const tpot = (nowMs - firstMs) / Math.max(1, turn.answerTokens - 1);
    if (ttft <= GOOD.ttftMs && tpot <= GOOD.tpotMs) numGood++;
    const hour = hours[Math.min(23, Math.floor((24 * arrivalMs) / dayMs))]!;
    hour.prompt += request.promptLen;
    hour.cached += request.numCached;
    if (turn.next !== null && nowMs < dayMs)
      events.push({ atMs: nowMs + turn.next.afterMs, type: "arrival", turn: turn.next.turn, isFirst: false });
  };
  const endStep = (index: number): void => {
    const replica = replicas[index]!;
    for (const served of replica.end(nowMs)) finish(served);
    let waiting = 0;
    for (const { firstMs, request } of replica.calls.values())
      if (firstMs < 0) waiting += request.promptLen - request.numComputed;
    replica.backlogTokens = waiting;
    beginStep(index);
  };
  const publish = (): void => {
    for (const [i, { id, journal }] of replicas.entries()) {
      if (journal.isEmpty) continue;
      const changes = wordsToText(journal.take());
      map.take(id, { type: "prefixes", epoch: 1, seq: ++seqs[i]!, isSnapshot: false, changes });
    }
    if (events.size > 0) events.push({ atMs: nowMs + PUBLISH_MS, type: "publish" });
  };

  nextConversation();
  events.push({ atMs: PUBLISH_MS, type: "publish" });
  for (let event = events.pop(); event !== null; event = events.pop()) {
    nowMs = event.atMs;
    if (event.type === "step") endStep(event.replica);
    else if (event.type === "publish") publish();
    else {
      arrive(event.turn);
      if (event.isFirst) nextConversation();
    }
  }
  return {
    numRequests: ttftMs.length,
    promptTokens: hours.reduce((sum, { prompt }) => sum + prompt, 0),
    cachedTokens: hours.reduce((sum, { cached }) => sum + cached, 0),
    ttftMs: ttftMs.sort((a, b) => a - b),
    goodput: numGood / (dayMs / 1000),
    hitRateByHour: hours.map(({ prompt, cached }) => (prompt === 0 ? 0 : cached / prompt)),
  };
}

/** A binary heap by time. */
class EventQueue {
  readonly #heap: Event[] = [];

  get size(): number {
    return this.#heap.length;
  }

  push(event: Event): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    for (let parent = (at - 1) >> 1; at > 0 && heap[parent]!.atMs > event.atMs; parent = (at - 1) >> 1) {
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = event;
  }

  pop(): Event | null {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined) return null;
    if (heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1]!.atMs < heap[child]!.atMs) child++;
      if (heap[child]!.atMs >= last.atMs) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}
