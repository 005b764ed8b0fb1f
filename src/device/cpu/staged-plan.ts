// One attention plan in native memory: a single workspace of int32, copied once per step.
//
//   [window, groupSize, qTile, kvChunk, numItems, numPartials, numMerges]
//   then itemRow, itemQStart, itemKvStart, itemKvEnd, itemPartial, itemValid   [numItems] each
//   then mergeRow, mergeQStart, mergePartial, mergeCount                       [numMerges] each
//
// native/cpu/src/attention.cpp reads it. The plan's spread over workers is not passed on: workers take items as they come free.

import type { AttentionPlan } from "../../core/attention-plan.js";
import { type CpuContext, NativeInts } from "./memory.js";

const HEADER = 7;
const MAX_INT32 = 0x7fffffff;

export class CpuStagedPlan {
  readonly ints: NativeInts;
  #packed = new Int32Array(1024);

  constructor(context: CpuContext) {
    this.ints = new NativeInts(context, 1024, "the attention plan");
  }

  stage(plan: AttentionPlan): void {
    const { numItems, numMerges } = plan;
    const size = HEADER + 6 * numItems + 4 * numMerges;
    if (size > this.#packed.length) this.#packed = new Int32Array(2 * size);
    const packed = this.#packed;
    packed[0] = plan.window;
    packed[1] = plan.groupSize;
    packed[2] = plan.qTile;
    packed[3] = Math.min(plan.kvChunk, MAX_INT32);
    packed[4] = numItems;
    packed[5] = plan.numPartials;
    packed[6] = numMerges;
    let at = HEADER;
    at = put(packed, at, plan.itemRow, numItems);
    at = put(packed, at, plan.itemQStart, numItems);
    at = put(packed, at, plan.itemKvStart, numItems);
    at = put(packed, at, plan.itemKvEnd, numItems);
    at = put(packed, at, plan.itemPartial, numItems);
    at = put(packed, at, plan.itemValid, numItems);
    at = put(packed, at, plan.mergeRow, numMerges);
    at = put(packed, at, plan.mergeQStart, numMerges);
    at = put(packed, at, plan.mergePartial, numMerges);
    at = put(packed, at, plan.mergeCount, numMerges);
    this.ints.fill(packed, at);
  }
}

function put(out: Int32Array, at: number, from: Int32Array | Uint8Array, count: number): number {
  for (let i = 0; i < count; i++) out[at + i] = from[i]!;
  return at + count;
}
