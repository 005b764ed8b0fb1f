// A day of a cluster in virtual time: the router's own code, the replicas' own schedulers and caches, events in order.

import type { Policy } from "../../src/cluster/router/choose.js";
import { makeRandom } from "../../test/support/random.js";
import { type Event, EventQueue } from "./event-queue.js";
import type { NamedPolicy } from "./policies.js";
import { PAGE_SIZE, type Served, SimulatedReplica } from "./simulated-replica.js";
import { SimulatedRouter } from "./simulated-router.js";
import { Traffic, type TrafficOptions, type Turn } from "./traffic.js";

export interface SimulationOptions extends TrafficOptions {
  readonly numReplicas: number;
  readonly pagesPerReplica: number;
  readonly seed: number;
  /** Steps that are run as one at most; 1: every step alone. */
  readonly maxStretch?: number;
}

/** Of the requests that came in one hour. */
export interface Hour {
  numAsked: number;
  numRefused: number;
  /** The first token came within 15 seconds and then two in a second or more. */
  numGood: number;
  promptTokens: number;
  cachedTokens: number;
  readonly ttftMs: number[];
}

const PUBLISH_MS = 100;
const RENEW_MS = 1000;
const GOOD = { ttftMs: 15_000, tpotMs: 500 } as const;
const HOUR_MS = 3_600_000;

type SimulatedEvent = Event &
  (
    | { readonly type: "arrival"; readonly turn: Turn; readonly isFirst: boolean }
    | { readonly type: "step"; readonly replica: number }
    | { readonly type: "publish" | "renew" }
  );

/** `onHour` hears of every hour that is over. */
export function simulate(
  options: SimulationOptions,
  { choose, looksAtPrefixes }: NamedPolicy,
  onHour: (hour: number) => void = () => undefined,
): readonly Hour[] {
  const { numReplicas, pagesPerReplica, seed, dayMs, maxStretch } = options;
  const random = makeRandom(seed);
  const conversations = new Traffic(options, makeRandom(seed + 1)).conversations();
  let nowMs = 0;
  const clock = (): number => nowMs;
  // Ties are drawn from the seed, not from Math.random().
  const chooseFrom: Policy = (some, tokens) => choose(some, tokens, random(2 ** 30) / 2 ** 30);
  const router = new SimulatedRouter(chooseFrom, looksAtPrefixes, clock);
  const replicas = Array.from(
    { length: numReplicas },
    (_, i) => new SimulatedReplica(String(i), pagesPerReplica, clock, looksAtPrefixes, maxStretch),
  );
  for (const replica of replicas) {
    router.hear(replica);
    if (looksAtPrefixes) router.hearPrefixes(replica);
  }
  const hours = Array.from({ length: Math.ceil(dayMs / HOUR_MS) }, newHour);
  const hourOf = (atMs: number): Hour => hours[Math.min(hours.length - 1, Math.floor(atMs / HOUR_MS))]!;
  const events = new EventQueue<SimulatedEvent>();
  const changed = new Set<SimulatedReplica>(); // since their load was last heard
  let numOpen = 0;
  let numHours = 0;

  const nextConversation = (): void => {
    const { value, done } = conversations.next();
    if (done !== true) events.push({ atMs: value.atMs, type: "arrival", turn: value.turn, isFirst: true });
  };
  const endAt = (index: number): void => {
    const atMs = replicas[index]!.endMs;
    if (atMs < Number.POSITIVE_INFINITY) events.push({ atMs, type: "step", replica: index });
  };
  const arrive = (turn: Turn): void => {
    const hour = hourOf(nowMs);
    hour.numAsked++;
    const isTaken = router.route(turn, nowMs, (index, id, prompt) => {
      const replica = replicas[index]!;
      const before = replica.endMs;
      replica.add(id, turn, prompt, nowMs);
      if (before === Number.POSITIVE_INFINITY) replica.begin(nowMs);
      if (replica.endMs !== before) endAt(index);
    });
    if (isTaken) numOpen++;
    else hour.numRefused++;
  };
  const finish = (replica: SimulatedReplica, { id, turn, request, firstMs }: Served): void => {
    router.hearOutput(replica.id, { id, at: turn.answerTokens, finishReason: "stop" });
    changed.add(replica);
    numOpen--;
    const hour = hourOf(request.arrivalMs);
    const ttftMs = firstMs - request.arrivalMs;
    const tpotMs = (nowMs - firstMs) / Math.max(1, turn.answerTokens - 1);
    hour.ttftMs.push(ttftMs);
    if (ttftMs <= GOOD.ttftMs && tpotMs <= GOOD.tpotMs) hour.numGood++;
    hour.promptTokens += request.promptLen;
    hour.cachedTokens += request.numCached;
    const { next } = turn;
    if (next !== null && nowMs + next.afterMs < dayMs)
      events.push({ atMs: nowMs + next.afterMs, type: "arrival", turn: next.turn, isFirst: false });
  };
  const endStep = (index: number): void => {
    const replica = replicas[index]!;
    if (replica.endMs !== nowMs) return; // a newcomer has moved the end
    replica.end(
      nowMs,
      ({ id }) => router.hearOutput(replica.id, { id, at: 0, tokens: [0] }),
      (call) => finish(replica, call),
    );
    replica.begin(nowMs);
    endAt(index);
  };
  const again = (type: "publish" | "renew", afterMs: number): void => {
    if (nowMs < dayMs || numOpen > 0) events.push({ atMs: nowMs + afterMs, type });
  };

  nextConversation();
  if (looksAtPrefixes) again("publish", PUBLISH_MS);
  again("renew", RENEW_MS);
  for (let event = events.pop(); event !== null; event = events.pop()) {
    nowMs = event.atMs;
    if (event.type === "step") endStep(event.replica);
    else if (event.type === "arrival") {
      arrive(event.turn);
      if (event.isFirst) nextConversation();
    } else if (event.type === "publish") {
      for (const replica of replicas) if (replica.journal?.isEmpty === false) router.hearPrefixes(replica);
      again("publish", PUBLISH_MS);
    } else {
      for (const replica of changed) router.hear(replica);
      changed.clear();
      if (nowMs >= (numHours + 1) * HOUR_MS) onHour(++numHours);
      again("renew", RENEW_MS);
    }
  }
  router.close();
  return hours;
}

function newHour(): Hour {
  return { numAsked: 0, numRefused: 0, numGood: 0, promptTokens: 0, cachedTokens: 0, ttftMs: [] };
}

/** What the traffic is, measured on it: lengths, and the share of prompt tokens that a cache that forgets nothing would have. */
export interface TrafficFacts {
  readonly numRequests: number;
  readonly promptTokens: readonly number[]; // sorted
  readonly answerTokens: readonly number[]; // sorted
  readonly reusable: number;
}

export function factsOf(options: SimulationOptions): TrafficFacts {
  const [prompts, answers]: [number[], number[]] = [[], []];
  const seen = new Set<number>();
  let reusable = 0;
  const note = (turn: Turn, knownTokens: number): void => {
    prompts.push(turn.promptTokens);
    answers.push(turn.answerTokens);
    const known = Math.min(knownTokens, turn.promptTokens - 1);
    reusable += known - (known % PAGE_SIZE);
    if (turn.next !== null) note(turn.next.turn, turn.promptTokens + turn.answerTokens - 1);
  };
  for (const { turn } of new Traffic(options, makeRandom(options.seed + 1)).conversations()) {
    note(turn, seen.has(turn.opening) ? turn.openingTokens : 0);
    seen.add(turn.opening);
  }
  const byLength = (a: number, b: number): number => a - b;
  const total = prompts.reduce((sum, length) => sum + length, 0);
  return {
    numRequests: prompts.length,
    promptTokens: prompts.sort(byLength),
    answerTokens: answers.sort(byLength),
    reusable: reusable / total,
  };
}
