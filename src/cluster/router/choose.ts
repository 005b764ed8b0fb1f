// Where a request goes: to the replica from which its first token is expected soonest. Pure; what it needs is passed in.
//
//   wait for a place     calls beyond the slots leave at the pace at which calls end
//   compute              (backlog + what it does not hold of this prompt) / prompt tokens per second
//   among others         rows that answer take their share of every step
//
// A prefix that everybody asks for spreads by itself: when the backlog of those who hold it costs more than computing it anew, the
// next request computes it elsewhere, and then one more replica holds it.

export interface Candidate {
  readonly id: string;
  /** Tokens of the prompt that it holds. */
  readonly heldTokens: number;
  readonly calls: number;
  readonly slots: number;
  readonly maxQueued: number;
  /** Prompt tokens of others that it computes first. */
  readonly backlogTokens: number;
  readonly tokensPerSecond: number;
  readonly meanCallMs: number;
  /** Where it would get more of the prompt from, quicker than by computing. */
  readonly fetch?: { readonly peer: string; readonly tokens: number; readonly ms: number };
}

/** Expected times that differ by less count as equal. */
const SAME_MS = 1;
/** Share of a step that answers take when all slots are taken. */
const ANSWER_SHARE = 0.5;

/** Milliseconds until the first token of a prompt. */
export function expectedFirstTokenMs(candidate: Candidate, promptTokens: number): number {
  const { heldTokens, calls, slots, backlogTokens, tokensPerSecond, meanCallMs, fetch } = candidate;
  const numAhead = Math.max(0, calls + 1 - slots);
  const waitMs = (numAhead / slots) * meanCallMs;
  const busy = ANSWER_SHARE * Math.min(1, calls / slots);
  const toCompute = backlogTokens + Math.max(1, promptTokens - heldTokens - (fetch?.tokens ?? 0));
  return waitMs + (fetch?.ms ?? 0) + (1000 * toCompute) / (tokensPerSecond * (1 - busy));
}

export function isFull({ calls, slots, maxQueued }: Candidate): boolean {
  return calls >= slots + maxQueued;
}

/** Of a transfer between replicas: what it costs to begin, and how fast it is then. */
const FETCH_MS = 15;
const FETCH_BYTES_PER_MS = 100_000;
const MIN_FETCH_TOKENS = 64;

/** The candidate with the way it would get its pages: those that `peer` holds beyond its own, if fetching is quicker than computing. */
export function withFetch(candidate: Candidate, peer: Candidate, bytesPerToken: number): Candidate {
  const tokens = peer.heldTokens - candidate.heldTokens;
  if (tokens < MIN_FETCH_TOKENS || peer.id === candidate.id) return candidate;
  const ms = FETCH_MS + (tokens * bytesPerToken) / FETCH_BYTES_PER_MS;
  return ms < (1000 * tokens) / candidate.tokensPerSecond
    ? { ...candidate, fetch: { peer: peer.id, tokens, ms } }
    : candidate;
}

/** How much later a first token may come for the sake of the answers that a prompt computed among them would hold up. */
const PREFILL_PATIENCE = 2;

/**
 * Whether a prompt that `chosen` is to answer is computed by `prefill` first: its pages must come quicker than they are computed, and its
 * queue must not be so long that the first token would come much later than without it.
 */
export function worthPrefill(
  chosen: Candidate,
  prefill: Candidate,
  promptTokens: number,
  bytesPerToken: number,
): boolean {
  const { fetch } = withFetch(chosen, { ...prefill, heldTokens: promptTokens }, bytesPerToken);
  if (fetch === undefined) return false;
  const ms = expectedFirstTokenMs(prefill, promptTokens) + fetch.ms;
  return ms <= PREFILL_PATIENCE * expectedFirstTokenMs(chosen, promptTokens);
}

export type Policy = (candidates: readonly Candidate[], promptTokens: number, random: number) => Candidate | null;

/**
 * null: all are full. Among equals the one that holds most, then the one with fewest calls, then `random` (0 to 1) decides, so that routers
 * do not all run to the same one.
 */
export function choose(candidates: readonly Candidate[], promptTokens: number, random: number): Candidate | null {
  let best: Candidate[] = [];
  let bestMs = Number.POSITIVE_INFINITY;
  for (const candidate of candidates) {
    if (isFull(candidate)) continue;
    const ms = expectedFirstTokenMs(candidate, promptTokens);
    if (ms < bestMs - SAME_MS) {
      best = [candidate];
      bestMs = ms;
    } else if (ms <= bestMs + SAME_MS) best.push(candidate);
  }
  best = those(best, ({ heldTokens }) => -heldTokens);
  best = those(best, ({ calls }) => calls);
  return best[Math.floor(random * best.length)] ?? null;
}

/** Those of which there is least. */
function those(candidates: readonly Candidate[], cost: (candidate: Candidate) => number): Candidate[] {
  const least = Math.min(...candidates.map(cost));
  return candidates.filter((candidate) => cost(candidate) === least);
}

/** Seconds after which a refused client may come again: when the cluster's slots have been taken over once by those who wait. */
export function retryAfterSeconds(candidates: readonly Candidate[]): number {
  const slots = candidates.reduce((sum, { slots: n }) => sum + n, 0);
  const waiting = candidates.reduce((sum, { calls, slots: n }) => sum + Math.max(0, calls - n), 0);
  const meanMs = candidates.reduce((sum, { meanCallMs }) => sum + meanCallMs, 0) / Math.max(1, candidates.length);
  return Math.min(60, Math.max(1, Math.ceil(((meanMs / 1000) * (waiting + 1)) / Math.max(1, slots))));
}
