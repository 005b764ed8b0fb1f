// Embeddings: the hidden states of a prompt become one vector.

import type { KeptRows } from "./kept-rows.js";
import type { Session } from "./session.js";

/** Takes in the hidden states kept from the session's chunk [start, end), from row `first` on; -1: none were kept. */
export function poolChunk(session: Session, hidden: KeptRows, first: number, start: number, end: number): void {
  const pooled = session.pooled!;
  if (start === 0) {
    // Also when a preempted request begins again.
    pooled.fill(0);
    session.pooledTokens = 0;
  }
  if (first < 0) return;
  const count = session.kind === "embed_mean" ? end - start : 1;
  for (let i = 0; i < count; i++) {
    const states = hidden.row(first + i);
    for (let d = 0; d < states.length; d++) pooled[d]! += states[d]!;
  }
  session.pooledTokens += count;
}

export function pooledVector(session: Session): Float32Array {
  return Float32Array.from(session.pooled!, (sum) => sum / session.pooledTokens);
}
