// The state pool and the recurrent layers of the reference device. Maths: recurrent.ts.

import type {
  Activation,
  LinearAttentionSpec,
  StagedBatch,
  StatePool,
  StatePoolSpec,
  StepLimits,
  Tensor,
} from "../device.js";
import { ReferenceKvOps } from "./kv-ops.js";
import { decayGates, linearAttention, ReferenceStatePool, shortConv } from "./recurrent.js";
import type { ReferenceStagedBatch } from "./staged-batch.js";
import type { ReferenceTensor } from "./tensor.js";

export abstract class ReferenceRecurrentOps extends ReferenceKvOps {
  allocStatePool(spec: StatePoolSpec): ReferenceStatePool {
    return new ReferenceStatePool(spec);
  }

  shortConv(
    out: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | null,
    activation: Activation,
    pool: StatePool,
    offset: number,
    staged: StagedBatch,
  ): void {
    shortConv(
      out as ReferenceTensor,
      x as ReferenceTensor,
      weight as ReferenceTensor,
      bias as ReferenceTensor | null,
      activation,
      pool as ReferenceStatePool,
      offset,
      staged as ReferenceStagedBatch,
    );
  }

  decayGates(decay: Tensor, step: Tensor, x: Tensor, bias: Tensor, rate: Tensor, limits: StepLimits, n: number): void {
    decayGates(
      decay as ReferenceTensor,
      step as ReferenceTensor,
      x as ReferenceTensor,
      bias as ReferenceTensor,
      rate as ReferenceTensor,
      limits,
      n,
    );
  }

  linearAttention(
    out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    rate: Tensor,
    spec: LinearAttentionSpec,
    pool: StatePool,
    offset: number,
    staged: StagedBatch,
  ): void {
    linearAttention(
      out as ReferenceTensor,
      q as ReferenceTensor,
      k as ReferenceTensor,
      v as ReferenceTensor,
      decay as ReferenceTensor,
      rate as ReferenceTensor,
      spec,
      pool as ReferenceStatePool,
      offset,
      staged as ReferenceStagedBatch,
    );
  }

  copyStates(pool: StatePool, from: number, to: number): void {
    (pool as ReferenceStatePool).copy(from, to);
  }

  readStates(out: Float32Array, pool: StatePool, slot: number): void {
    out.set((pool as ReferenceStatePool).slot(slot));
  }

  writeStates(pool: StatePool, slot: number, values: Float32Array): void {
    (pool as ReferenceStatePool).slot(slot).set(values);
  }
}
