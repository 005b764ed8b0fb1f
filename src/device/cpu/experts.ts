// Mixtures of experts: the native handle of a layer's experts and router, made on first use and kept with the weights.

import type { ExpertWeights, RouterSpec } from "../device.js";
import { GATE_CODE, SCORE_CODE } from "./codes.js";
import type { CpuContext, CpuTensor } from "./memory.js";
import type { CpuWeight } from "./weights.js";

interface Made {
  readonly handle: number;
  readonly router: RouterSpec;
  readonly maxRows: number;
}

export class CpuExperts {
  readonly #context: CpuContext;
  readonly #made = new Map<ExpertWeights, Made>();

  constructor(context: CpuContext) {
    this.#context = context;
  }

  /** The handle for up to `maxRows` rows. A layer has one router and one size, so it is made once. */
  handleOf(experts: ExpertWeights, router: RouterSpec, maxRows: number): number {
    const made = this.#made.get(experts);
    if (made !== undefined && made.router === router && made.maxRows >= maxRows) return made.handle;
    if (made !== undefined) this.#context.native.pg_experts_free(made.handle);
    this.#made.delete(experts);
    const handle = this.#create(experts, router, maxRows);
    this.#made.set(experts, { handle, router, maxRows });
    return handle;
  }

  #create(experts: ExpertWeights, router: RouterSpec, maxRows: number): number {
    const { native, handle } = this.#context;
    const gateUpBias = experts.gateUpBias as CpuTensor | null;
    const downBias = experts.downBias as CpuTensor | null;
    const hidden = experts.down[0]!.rows;
    return this.#context.create("pg_experts_create", (out) =>
      native.pg_experts_create(
        handle,
        router.numExperts,
        handlesOf(experts.gateUp),
        handlesOf(experts.down),
        gateUpBias === null ? 0 : gateUpBias.address,
        gateUpBias === null ? 0 : gateUpBias.stride,
        downBias === null ? 0 : downBias.address,
        downBias === null ? 0 : downBias.stride,
        hidden,
        experts.inner,
        GATE_CODE[experts.activation],
        router.topK,
        SCORE_CODE[router.score],
        router.normalize ? 1 : 0,
        router.scale,
        router.bias === null ? 0 : (router.bias as CpuTensor).address,
        router.expertScale === undefined ? 0 : (router.expertScale as CpuTensor).address,
        router.numGroups,
        router.topkGroup,
        router.groupBest ?? 2,
        experts.isGated === false ? 0 : 1,
        router.scalesInput === true ? 1 : 0,
        maxRows,
        out,
      ),
    );
  }

  close(): void {
    for (const { handle } of this.#made.values()) this.#context.native.pg_experts_free(handle);
    this.#made.clear();
  }
}

function handlesOf(weights: ExpertWeights["down"]): BigUint64Array {
  return BigUint64Array.from(weights, (weight) => BigInt((weight as CpuWeight).handle));
}
