// Heads with a matrix each, in one launch (native/cuda/head-matmul.cu).

import type { HeadWeights } from "../device.js";
import { KIND } from "./codes.js";
import type { CudaRuntime } from "./runtime.js";
import type { CudaTensor, CudaWeight } from "./tensor.js";

/** Outputs of a warp, and warps of a block. */
const STRIP = 16;
const WARPS = 4;
const FEW_TOKENS = 8;
const MANY_TOKENS = 32;

export interface CudaHeadWeights extends HeadWeights {
  readonly weights: readonly CudaWeight[];
  /** [heads] their addresses. */
  readonly table: number;
}

/** Matrices of one shape and format. */
export function bindHeads(runtime: CudaRuntime, weights: readonly CudaWeight[]): CudaHeadWeights {
  const { rows, cols, format } = weights[0]!;
  if (weights.some((other) => other.rows !== rows || other.cols !== cols || other.format !== format))
    throw new RangeError("the matrices of heads differ in shape or format");
  const table = runtime.context.alloc(8 * weights.length, "addresses of the heads' matrices");
  const addresses = BigUint64Array.from(weights, ({ address }) => BigInt(address));
  runtime.upload(table, new Uint8Array(addresses.buffer));
  return { weights, table };
}

export function launchHeads(
  runtime: CudaRuntime,
  out: CudaTensor,
  x: CudaTensor,
  { weights, table }: CudaHeadWeights,
  outHead: number,
  xHead: number,
  n: number,
): void {
  if (n === 0) return;
  const { rows, cols, paddedCols, format, kind } = weights[0]!;
  const isPlain = kind === KIND.none;
  const isFew = isPlain || n <= FEW_TOKENS;
  const tokens = isFew ? FEW_TOKENS : MANY_TOKENS;
  const name = isPlain ? "head_matmul_f32" : `head_matmul_${format.name}_${isFew ? 1 : 4}`;
  const blocks = isPlain ? Math.ceil(rows / 8) : Math.ceil(rows / (STRIP * WARPS));
  out.storage.version++;
  runtime.queue
    .begin(
      runtime.modules.functionOf("head-matmul", name),
      blocks,
      Math.min(1024, Math.ceil(n / tokens)),
      weights.length,
      isPlain ? 256 : 32 * WARPS,
      0,
    )
    .long(out.address)
    .long(x.address)
    .long(table)
    .long(out.stride)
    .long(x.stride)
    .int(outHead)
    .int(xHead)
    .int(n)
    .int(rows)
    .int(cols)
    .int(paddedCols / 64)
    .end();
}
