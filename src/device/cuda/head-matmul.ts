// Heads with a matrix each, in one launch (native/cuda/head-matmul.cu).

import type { HeadWeights } from "../device.js";
import { KIND } from "./codes.js";
import type { CudaRuntime } from "./runtime.js";
import type { CudaTensor, CudaWeight } from "./tensor.js";

/** Outputs of a warp, and warps of a block. */
const STRIP = 16;
const WARPS = 4;
const FEW_TOKENS = 8;
const MORE_TOKENS = 32;
/** Of more tokens: those of a block, which has them in shared memory, and its warps. */
const TILE_TOKENS = 64;
const TILE_WARPS = 8;

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
  const heads = weights.length;
  const { queue, modules, context } = runtime;
  const kernelOf = (name: string, sharedBytes = 0): number => modules.functionOf("head-matmul", name, sharedBytes);
  const tileBytes = TILE_TOKENS * (2 * paddedCols + 16);
  out.storage.version++;
  if (kind === KIND.none) {
    queue.begin(kernelOf("head_matmul_f32"), Math.ceil(rows / 8), groupsOf(n, FEW_TOKENS), heads, 256, 0);
  } else if (n > MORE_TOKENS && tileBytes <= context.facts.sharedBytes) {
    const strips = rows >= 2 * STRIP * TILE_WARPS ? 2 : 1;
    const kernel = kernelOf(`head_tile_${format.name}_${strips}`, tileBytes);
    queue.begin(kernel, Math.ceil(n / TILE_TOKENS), heads, 1, 32 * TILE_WARPS, tileBytes);
  } else {
    const tokens = n <= FEW_TOKENS ? FEW_TOKENS : MORE_TOKENS;
    const kernel = kernelOf(`head_matmul_${format.name}_${tokens / 8}`);
    queue.begin(kernel, Math.ceil(rows / (STRIP * WARPS)), groupsOf(n, tokens), heads, 32 * WARPS, 0);
  }
  queue
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

function groupsOf(n: number, tokens: number): number {
  return Math.min(1024, Math.ceil(n / tokens));
}
