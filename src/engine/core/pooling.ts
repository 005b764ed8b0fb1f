// The hidden states of a prompt become one vector, chunk by chunk.

import { isOfOneToken, type Pooling } from "../../core/pooling.js";
import type { HostReadback } from "./flight.js";
import type { Session } from "./session.js";

/** Positions of a chunk whose hidden states are needed: [from, to), empty where none are. */
export function neededStates(pooling: Pooling, start: number, end: number, promptLen: number): [number, number] {
  switch (pooling) {
    case "first":
      return [start, start === 0 ? 1 : start];
    case "last":
      return [end === promptLen ? end - 1 : end, end];
    default:
      return [start, end];
  }
}

/** Takes in the hidden states kept from the session's chunk [start, end), from row `first` on; -1: none were kept. */
export function poolChunk(session: Session, hidden: HostReadback, first: number, start: number, end: number): void {
  const pooled = session.pooled!;
  if (start === 0) pooled.clear(); // also when a preempted request begins again
  if (first < 0) return;
  const count = isOfOneToken(pooled.pooling) ? 1 : end - start;
  for (let i = 0; i < count; i++) pooled.add(hidden.row(first + i), start + i);
}
