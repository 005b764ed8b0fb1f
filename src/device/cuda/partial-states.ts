// Room for the partial states of split attention tiles. All pools share it: kernels of one stream use it in turn. Plans are cut so that it suffices (plannerLimits), so it is taken with the pools and never in a step.

import type { KvPoolSpec } from "../device.js";
import { mostPartialRows } from "./kv-pool.js";
import type { CudaRuntime } from "./runtime.js";

export class PartialStates {
  values = 0; // [rows, K, Dv] f32
  scales = 0; // [rows, K] two f32
  #values = 0;
  #states = 0;

  /** For attention over such pages too. */
  reserve({ context, queue }: CudaRuntime, { numKvHeads, keyDim, valueDim }: Omit<KvPoolSpec, "numPages">): void {
    const states = mostPartialRows(numKvHeads, keyDim) * numKvHeads;
    const values = states * valueDim;
    if (values <= this.#values && states <= this.#states) return;
    queue.flush();
    context.synchronize();
    if (values > this.#values) {
      context.free(this.values);
      this.#values = values;
      this.values = context.alloc(4 * values, "partial attention states");
    }
    if (states <= this.#states) return;
    context.free(this.scales);
    this.#states = states;
    this.scales = context.alloc(8 * states, "partial attention states");
  }
}
