// The recurrent layers as the maths is written: the plain recurrence, token by token, sums in f64. State is kept in f32, as every
// device keeps it, so that a sequence may be cut anywhere.

import { activate } from "../../core/activation.js";
import type { Activation, LinearAttentionSpec, StatePool, StatePoolSpec, StepLimits } from "../device.js";
import { checkBytes } from "./allocation.js";
import type { ReferenceStagedBatch } from "./staged-batch.js";
import type { ReferenceTensor } from "./tensor.js";

export class ReferenceStatePool implements StatePool {
  readonly spec: StatePoolSpec;
  readonly data: Float32Array; // [numSlots, floats]

  constructor(spec: StatePoolSpec) {
    this.spec = spec;
    checkBytes(spec.numSlots * spec.floats * 4, "the state pool", "Use fewer slots or the cpu device.");
    this.data = new Float32Array(spec.numSlots * spec.floats);
  }

  get byteLength(): number {
    return this.data.byteLength;
  }

  copy(from: number, to: number): void {
    const { floats } = this.spec;
    this.data.copyWithin(to * floats, from * floats, (from + 1) * floats);
  }

  /** The slot's numbers, where they lie. */
  slot(index: number): Float32Array {
    const { floats, numSlots } = this.spec;
    if (index < 0 || index >= numSlots) throw new RangeError(`slot ${index} of ${numSlots}`);
    return this.data.subarray(index * floats, (index + 1) * floats);
  }
}

/** Where row r keeps its state; zeroed when the row begins its sequence. */
function stateOfRow(
  pool: ReferenceStatePool,
  offset: number,
  count: number,
  staged: ReferenceStagedBatch,
  row: number,
): number {
  const { stateSlots, positions, qoIndptr } = staged.batch;
  const slot = stateSlots[row]!;
  if (slot < 0 || slot >= pool.spec.numSlots) throw new RangeError(`slot ${slot} of ${pool.spec.numSlots}`);
  const at = slot * pool.spec.floats + offset;
  if (positions[qoIndptr[row]!] === 0) pool.data.fill(0, at, at + count);
  return at;
}

/** Where in the batch the row's state is stored: behind its last token that is no guess. */
function stateEndOf({ batch: { qoIndptr, stateLens } }: ReferenceStagedBatch, row: number): number {
  return qoIndptr[row]! + stateLens[row]!;
}

export function shortConv(
  out: ReferenceTensor,
  x: ReferenceTensor,
  weight: ReferenceTensor,
  bias: ReferenceTensor | null,
  activation: Activation,
  pool: ReferenceStatePool,
  offset: number,
  staged: ReferenceStagedBatch,
): void {
  const { rows: kernel } = weight;
  const { cols } = x;
  const { qoIndptr } = staged.batch;
  for (let row = 0; row < staged.numRows; row++) {
    if (qoIndptr[row] === qoIndptr[row + 1]) continue;
    const at = stateOfRow(pool, offset, (kernel - 1) * cols, staged, row);
    let stored: Float32Array | null = null;
    for (let t = qoIndptr[row]!; t < qoIndptr[row + 1]!; t++) {
      if (t === stateEndOf(staged, row)) stored = pool.data.slice(at, at + (kernel - 1) * cols);
      for (let c = 0; c < cols; c++) {
        const input = x.data[x.offset + t * x.stride + c]!;
        let sum = bias === null ? 0 : bias.data[bias.offset + c]!;
        for (let j = 0; j < kernel - 1; j++) {
          sum += weight.data[weight.offset + j * weight.stride + c]! * pool.data[at + j * cols + c]!;
        }
        sum += weight.data[weight.offset + (kernel - 1) * weight.stride + c]! * input;
        out.data[out.offset + t * out.stride + c] = activate(activation, Math.fround(sum));
        for (let j = 0; j + 1 < kernel - 1; j++) pool.data[at + j * cols + c] = pool.data[at + (j + 1) * cols + c]!;
        if (kernel > 1) pool.data[at + (kernel - 2) * cols + c] = input;
      }
    }
    if (stored !== null) pool.data.set(stored, at);
  }
}

export function decayGates(
  decay: ReferenceTensor,
  step: ReferenceTensor,
  x: ReferenceTensor,
  bias: ReferenceTensor,
  rate: ReferenceTensor,
  limits: StepLimits,
  n: number,
): void {
  for (let t = 0; t < n; t++) {
    for (let h = 0; h < x.cols; h++) {
      const raised = x.data[x.offset + t * x.stride + h]! + bias.data[bias.offset + h]!;
      const softplus = raised > 20 ? raised : Math.log1p(Math.exp(raised));
      const dt = Math.fround(Math.min(Math.max(softplus, limits.min), limits.max));
      step.data[step.offset + t * step.stride + h] = dt;
      decay.data[decay.offset + t * decay.stride + h] = Math.exp(rate.data[rate.offset + h]! * dt);
    }
  }
}

export function linearAttention(
  out: ReferenceTensor,
  q: ReferenceTensor,
  k: ReferenceTensor,
  v: ReferenceTensor,
  decay: ReferenceTensor,
  rate: ReferenceTensor,
  spec: LinearAttentionSpec,
  pool: ReferenceStatePool,
  offset: number,
  staged: ReferenceStagedBatch,
): void {
  const { numHeads, numKeyHeads, keyDim, valueDim, isDelta } = spec;
  const skips = spec.skip as ReferenceTensor | null;
  const { qoIndptr } = staged.batch;
  const S = pool.data;
  for (let row = 0; row < staged.numRows; row++) {
    if (qoIndptr[row] === qoIndptr[row + 1]) continue;
    const at = stateOfRow(pool, offset, numHeads * keyDim * valueDim, staged, row);
    let stored: Float32Array | null = null;
    for (let t = qoIndptr[row]!; t < qoIndptr[row + 1]!; t++) {
      if (t === stateEndOf(staged, row)) stored = S.slice(at, at + numHeads * keyDim * valueDim);
      for (let h = 0; h < numHeads; h++) {
        const keyHead = Math.floor(h / (numHeads / numKeyHeads)) * keyDim;
        const qAt = q.offset + t * q.stride + keyHead;
        const kAt = k.offset + t * k.stride + keyHead;
        const vAt = v.offset + t * v.stride + h * valueDim;
        const g = decay.data[decay.offset + t * decay.stride + h]!;
        const r = rate.data[rate.offset + t * rate.stride + h]!;
        const skip = skips === null ? 0 : skips.data[skips.offset + h]!;
        for (let c = 0; c < valueDim; c++) {
          const value = v.data[vAt + c]!;
          const state = at + h * keyDim * valueDim + c; // column c, rows valueDim apart
          let known = 0;
          if (isDelta) for (let i = 0; i < keyDim; i++) known += S[state + i * valueDim]! * k.data[kAt + i]!;
          const u = r * (value - g * known);
          let sum = 0;
          for (let i = 0; i < keyDim; i++) {
            S[state + i * valueDim] = g * S[state + i * valueDim]! + k.data[kAt + i]! * u;
            sum += S[state + i * valueDim]! * q.data[qAt + i]!;
          }
          out.data[out.offset + t * out.stride + h * valueDim + c] = sum + skip * value;
        }
      }
    }
    if (stored !== null) S.set(stored, at);
  }
}
