// Which matmul kernel serves a product, and how it is launched. All of them sum K in one order that does not depend on the number
// of rows.

import type { MatmulOptions } from "../device.js";
import { type Format, KIND } from "./codes.js";
import { addressOf } from "./row-ops.js";
import { type CudaRuntime, MOST_TILES, PARTS_BYTES, STREAM_TOKENS, stripWidth } from "./runtime.js";
import { CHAINS, type CudaTensor, type CudaWeight, type Operand, ORDER } from "./tensor.js";

export interface Product {
  readonly bias: number;
  readonly scale: number;
  readonly accumulate: boolean;
  /** Code of the activation between gate and up, whose rows follow the gate's; -1: a plain product. */
  readonly gate: number;
}

export function productOf(options: MatmulOptions | undefined): Product {
  return {
    bias: addressOf(options?.bias ?? null),
    scale: options?.scale ?? 1,
    accumulate: options?.accumulate === true,
    gate: -1,
  };
}

/** Warps of a block, each with a strip of 16 rows, and stages of the ring: enough blocks for all SMs, 48-64 KB in flight on each. */
function stripShape(
  strips: number,
  width: number,
  { stepBytes, isCoded }: Pick<Format, "stepBytes" | "isCoded">,
  mostShared: number,
): { warps: number; stages: number; sharedBytes: number } {
  const warps = strips >= 2048 ? 8 : strips >= 528 ? 4 : strips >= 264 ? 2 : 1;
  const stageBytes = warps * stepBytes + width * 1024;
  const choices = isCoded ? [4] : width === 8 ? [12, 8, 4] : [20, 8, 4];
  const room = warps === 1 ? mostShared : 76 * 1024;
  const stages = choices.find((count) => count * stageBytes <= room) ?? 4;
  return { warps, stages, sharedBytes: stages * stageBytes };
}

export function launchMatmul(
  runtime: CudaRuntime,
  out: CudaTensor,
  x: CudaTensor,
  weight: CudaWeight,
  n: number,
  product: Product,
  holdsOthers = false,
): void {
  if (n === 0) return;
  const { queue, modules } = runtime;
  if (weight.kind === KIND.none) {
    queue
      .begin(
        modules.functionOf("matmul-f32", "matmul_f32"),
        Math.ceil(weight.rows / 8),
        Math.min(64, Math.ceil(n / 8)),
        1,
        256,
        0,
      )
      .long(x.address)
      .long(weight.address);
    epilogue(runtime, out, product).long(x.stride).int(n).int(weight.rows).int(weight.cols).int(0).end();
    return;
  }
  const operand = runtime.operandOf(x, n, weight.kind);
  if (operand.order === ORDER.tile) tiles(runtime, out, operand, weight, n, product);
  else if (runtime.isHopper) streams(runtime, out, operand, weight, n, product, holdsOthers);
  else strips(runtime, out, operand, weight, n, product);
}

/** Whether the product can hold the launch behind it back until what it reads itself is there (StreamArgs in matmul-stream.cuh). */
export function canHoldOthers(runtime: CudaRuntime, weight: CudaWeight, n: number): boolean {
  return runtime.isHopper && weight.kind !== KIND.none && n <= STREAM_TOKENS;
}

/** Steps of 64 k's in a stage and stages in the stream kernel's ring (matmul-stream*.cu), by groups of 8 tokens and strips. */
const STREAM_RINGS: Readonly<Record<string, readonly [steps: number, stages: number]>> = {
  "1 1": [4, 7],
  "1 2": [4, 4],
  "1 4": [4, 3],
  "2 1": [4, 5],
  "2 2": [4, 4],
  "2 4": [4, 2],
  "4 1": [4, 4],
  "4 2": [4, 3],
  "4 4": [4, 2],
};
const CODED_RINGS: typeof STREAM_RINGS = {
  "1 4": [4, 4],
  "2 4": [4, 4],
  "4 4": [4, 3],
};
/** The same of each of a strip's chains (matmul-chains.cuh), by groups of 8 tokens. */
const CHAIN_RINGS: typeof STREAM_RINGS = { "1": [2, 4], "2": [2, 3], "4": [2, 2] };
const CODED_CHAIN_RINGS: typeof STREAM_RINGS = { "1": [2, 5], "2": [2, 3], "4": [2, 2] };

function streams(
  runtime: CudaRuntime,
  out: CudaTensor,
  operand: Operand,
  weight: CudaWeight,
  n: number,
  product: Product,
  holdsOthers: boolean,
): void {
  const isGated = product.gate >= 0;
  const all = Math.ceil(weight.rows / 16);
  const { name, stepBytes, isCoded } = weight.format;
  const width = stripWidth(n);
  const source = isCoded ? "matmul-stream-codes" : "matmul-stream";
  if (weight.isCut && !isGated) {
    const [steps, stages] = (isCoded ? CODED_CHAIN_RINGS : CHAIN_RINGS)[`${width}`]!;
    const sharedBytes = CHAINS * stages * steps * (stepBytes + width * 1024);
    const kernel = runtime.modules.functionOf(source, `chains_${name}_${width}`, sharedBytes);
    runtime.queue.begin(kernel, all, 1, 1, 32 * (CHAINS + 1), sharedBytes);
  } else {
    // A gate and its up are strips of one block; large matrices fill the multiprocessors with blocks of 4.
    const strips = isCoded || all >= 528 ? 4 : isGated || all >= 264 ? 2 : 1;
    const [steps, stages] = (isCoded ? CODED_RINGS : STREAM_RINGS)[`${width} ${strips}`]!;
    const sharedBytes = stages * steps * (strips * stepBytes + width * 1024);
    const kernel = runtime.modules.functionOf(source, `stream_${name}_${width}_${strips}`, sharedBytes);
    runtime.queue.begin(kernel, Math.ceil(all / strips), 1, 1, 32 * (strips + 1), sharedBytes);
  }
  runtime.queue.long(operand.address).long(weight.address);
  epilogue(runtime, out, product);
  gate(runtime, out, n, product)
    .int(n)
    .int(isGated ? weight.rows / 2 : weight.rows)
    .int(isGated ? all / 2 : all)
    .int(weight.paddedCols / 64)
    .int(weight.chainSteps)
    .int(holdsOthers ? 1 : 0)
    .end();
}

/** A form of the tile kernel (matmul-tile.cu): tokens and warpgroups of 64 rows of a block, its rings, clocks it takes for 64 k's. */
export interface TileForm {
  readonly tokens: number;
  readonly groups: number;
  readonly weightSteps: number;
  readonly weightStages: number;
  readonly operandStages: number;
  readonly clocks: number;
}
export const TILES: readonly TileForm[] = [
  { tokens: 256, groups: 2, weightSteps: 2, weightStages: 3, operandStages: 4, clocks: 1080 },
  { tokens: 192, groups: 2, weightSteps: 2, weightStages: 3, operandStages: 5, clocks: 890 },
  { tokens: 128, groups: 2, weightSteps: 2, weightStages: 3, operandStages: 6, clocks: 670 },
  { tokens: 128, groups: 1, weightSteps: 4, weightStages: 3, operandStages: 6, clocks: 500 },
  { tokens: 64, groups: 2, weightSteps: 2, weightStages: 4, operandStages: 6, clocks: 560 },
  { tokens: 64, groups: 1, weightSteps: 4, weightStages: 3, operandStages: 6, clocks: 330 },
  { tokens: 32, groups: 1, weightSteps: 4, weightStages: 3, operandStages: 6, clocks: 310 },
];
/** Clocks to fill the ring and to write a tile out; for each sum of a chain by itself, to write it and to add up those of all. */
const TILE_CLOCKS = 8000;
const PART_CLOCKS = 1;

/** A form, and whether the chains of a matrix that is cut run side by side, a block each. */
export interface TileChoice {
  readonly form: TileForm;
  readonly isSideBySide: boolean;
}

/** What finishes first: waves of blocks over the multiprocessors. */
export function tileChoice(multiprocessors: number, weight: CudaWeight, n: number, isGated = false): TileChoice {
  const steps = weight.paddedCols / 64;
  let best: TileChoice | undefined;
  let least = Infinity;
  const consider = (form: TileForm, isSideBySide: boolean, blocks: number, clocks: number): void => {
    const all = Math.ceil(blocks / multiprocessors) * clocks;
    if (all >= least) return;
    least = all;
    best = { form, isSideBySide };
  };
  for (const form of TILES) {
    const { tokens, groups, clocks } = form;
    if (isGated && groups !== 2) continue; // a warpgroup for the gate, one for the up projection
    // Sums of earlier chains take as many registers as this one's: there is no room for those of 256 tokens.
    if (weight.isCut ? tokens > 192 : tokens === 192) continue;
    const blocks = Math.ceil(weight.rows / (64 * groups)) * Math.ceil(n / tokens);
    consider(form, false, blocks, steps * clocks + TILE_CLOCKS);
    if (!canPart(form, weight, n)) continue;
    consider(
      form,
      true,
      blocks * chainsOf(weight),
      weight.chainSteps * clocks + TILE_CLOCKS + PART_CLOCKS * 64 * groups * tokens,
    );
  }
  return best!;
}

function chainsOf(weight: CudaWeight): number {
  return Math.ceil(weight.paddedCols / 64 / weight.chainSteps);
}

/** Whether a matrix' chains may run side by side: several, with room for their sums. */
export function canPart({ tokens, groups }: TileForm, weight: CudaWeight, n: number): boolean {
  const chains = chainsOf(weight);
  const tiles = Math.ceil(weight.rows / (64 * groups)) * Math.ceil(n / tokens);
  return chains > 1 && tokens <= 128 && tiles <= MOST_TILES && tiles * chains * tokens * groups * 256 <= PARTS_BYTES;
}

export function tiles(
  runtime: CudaRuntime,
  out: CudaTensor,
  operand: Operand,
  weight: CudaWeight,
  n: number,
  product: Product,
  choice?: TileChoice,
): void {
  const isGated = product.gate >= 0;
  const strips = Math.ceil(weight.rows / 16);
  const steps = weight.paddedCols / 64;
  const { form, isSideBySide } = choice ?? tileChoice(runtime.context.facts.multiprocessors, weight, n, isGated);
  const { tokens, groups, weightSteps, weightStages, operandStages } = form;
  const tokenTiles = Math.ceil(n / tokens);
  const { name, stepBytes, isCoded } = weight.format;
  const sharedBytes = weightStages * weightSteps * groups * 4 * stepBytes + operandStages * tokens * 128;
  const kernel = runtime.modules.functionOf(
    isCoded ? "matmul-tile-codes" : "matmul-tile",
    `tile_${name}_${tokens}_${groups}`,
    sharedBytes,
  );
  const blocks = Math.ceil(strips / (4 * groups)) * tokenTiles;
  runtime.queue
    .begin(kernel, blocks, isSideBySide ? chainsOf(weight) : 1, 1, 128 * (groups + 1), sharedBytes)
    .long(operand.address)
    .long(weight.address)
    .long(isSideBySide ? runtime.parts : 0)
    .long(isSideBySide ? runtime.parts + PARTS_BYTES : 0);
  epilogue(runtime, out, product);
  gate(runtime, out, n, product)
    .int(n)
    .int(operand.tokens8)
    .int(isGated ? weight.rows / 2 : weight.rows)
    .int(isGated ? strips / 2 : strips)
    .int(steps)
    .int(tokenTiles)
    .int(weight.chainSteps)
    .int(0)
    .end();
}

function strips(
  runtime: CudaRuntime,
  out: CudaTensor,
  operand: Operand,
  weight: CudaWeight,
  n: number,
  product: Product,
): void {
  const isGated = product.gate >= 0;
  const all = Math.ceil(weight.rows / 16);
  const count = isGated ? all / 2 : all;
  const width = stripWidth(n);
  const { format } = weight;
  // A gate and its up are two warps of a block.
  const mostShared = Math.min(120 * 1024, runtime.context.facts.sharedBytes);
  const { warps, stages, sharedBytes } = stripShape(isGated ? Math.max(264, all) : all, width, format, mostShared);
  const kernel = runtime.modules.functionOf(
    format.isCoded ? "matmul-strip-codes" : "matmul-strip",
    `strip_${format.name}_${width}_${stages}`,
    mostShared,
  );
  runtime.queue
    .begin(kernel, Math.ceil(all / warps), operand.tokens8 / width, 1, 32 * warps, sharedBytes)
    .long(operand.address)
    .long(weight.address);
  epilogue(runtime, out, product);
  gate(runtime, out, n, product)
    .int(n)
    .int(operand.tokens8)
    .int(isGated ? weight.rows / 2 : weight.rows)
    .int(count)
    .int(weight.paddedCols / 64)
    .int(weight.chainSteps)
    .end();
}

/** The arguments of epilogue.cuh. */
function epilogue(runtime: CudaRuntime, out: CudaTensor, { bias, scale, accumulate }: Product) {
  out.storage.version++;
  return runtime.queue
    .long(out.address)
    .long(bias)
    .long(out.stride)
    .float(scale)
    .int(accumulate ? 1 : 0);
}

/** The arguments of Gate in epilogue.cuh; a plain product writes no operand. */
function gate(runtime: CudaRuntime, out: CudaTensor, n: number, product: Product) {
  const isGated = product.gate >= 0;
  const queue = isGated ? runtime.operandOut(out, n) : runtime.noOperand();
  return queue.int(isGated ? 1 : 0).int(Math.max(0, product.gate));
}

/** Before Hopper: the most tokens of gate and up in one product. */
const GATED_TOKENS = 64;

/** Whether gate and up of this weight are done in one product: whole strips each, and before Hopper few tokens. */
export function canGate(runtime: CudaRuntime, weight: CudaWeight, n: number): boolean {
  return weight.kind !== KIND.none && weight.rows % 128 === 0 && (runtime.isHopper || n <= GATED_TOKENS);
}
