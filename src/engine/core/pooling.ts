// Embeddings: the hidden states of a prompt become one vector.

import type { Device } from "../../device/device.js";
import type { Model } from "../../models/model.js";
import type { Session } from "./session.js";

/** Takes in the hidden states of the session's chunk, rows [firstRow, firstRow + queryLen), the first of them at `start`. */
export function poolChunk(
  session: Session,
  device: Device,
  model: Model,
  firstRow: number,
  start: number,
  queryLen: number,
): void {
  const { request } = session;
  const pooled = session.pooled!;
  if (start === 0) {
    // Also when a preempted request begins again.
    pooled.fill(0);
    session.pooledTokens = 0;
  }
  const isLast = request.numComputed === request.numTokens;
  const count = session.kind === "embed_mean" ? queryLen : isLast ? 1 : 0;
  if (count === 0) return;
  const width = pooled.length;
  const states = new Float32Array(count * width);
  device.read(states, model.hidden, firstRow + queryLen - count, count);
  for (let i = 0; i < states.length; i++) pooled[i % width]! += states[i]!;
  session.pooledTokens += count;
}

export function pooledVector(session: Session): Float32Array {
  return Float32Array.from(session.pooled!, (sum) => sum / session.pooledTokens);
}
