// The page pool on the device: how pages lie there, which attention kernels read them, and the shared memory that those take.

import { workersPerHead } from "../../attention/kv-chunk.js";
import type { PlannerOptions, PlanShape } from "../../attention/planner.js";
import type { KvDtype, KvPool, KvPoolSpec } from "../device.js";
import { type KvLayout, kvLayout } from "../kv-layout.js";
import type { GpuFacts } from "./driver/context.js";
import { CHUNK, LATENT_CHUNK, MOST_PARTIAL_ROWS, UNIT } from "./staged-plan.js";

export const ELEMENT_BYTES = { f32: 4, f16: 2, bf16: 2, i8: 1, fp8: 1 } as const;

/**
 * Kernels on the tensor cores: the largest dims each takes, ring slots of its decode form with bulk copies, how many blocks of it fit a
 * multiprocessor, of fp8 pages too, ring slots without bulk copies, and whether the extend kernel on wgmma takes exactly these dims (attention-decode.cuh,
 * attention-prompts.cuh).
 */
const SHAPES = [
  { dk: 64, dv: 64, bulkSlots: 4, bulkBlocks: 3, codeBlocks: 4, copySlots: 3, hasWgmma: true },
  { dk: 128, dv: 128, bulkSlots: 3, bulkBlocks: 2, codeBlocks: 3, copySlots: 2, hasWgmma: true },
  { dk: 192, dv: 128, bulkSlots: 4, bulkBlocks: 1, codeBlocks: 1, copySlots: 2, hasWgmma: false },
  { dk: 256, dv: 256, bulkSlots: 3, bulkBlocks: 1, codeBlocks: 1, copySlots: 2, hasWgmma: false },
] as const;
type Shape = (typeof SHAPES)[number];

/**
 * What plans are cut for: two decode blocks on each multiprocessor (of fp8 pages as many as fit), one of the extend kernel, each item once for
 * each kv head. Costs
 * are those of reading K and V: a tile of 128 rows takes a unit about as long. Tall tiles are split where whole ones would take three times
 * their fair share: their states are half as large as the keys, so splitting pays where most multiprocessors would have no work. Five units take no
 * longer whole than two, and the launch that merges; but those of latents do, which one head has.
 */
export function plannerLimits({ multiprocessors }: GpuFacts, { numKvHeads = 1, headDim, kvDtype }: PlanShape) {
  const blocks = kvDtype === "fp8" ? (SHAPES.find(({ dk }) => headDim <= dk)?.codeBlocks ?? 2) : 2;
  return {
    numWorkers: workersPerHead(blocks * multiprocessors, numKvHeads),
    tallWorkers: workersPerHead(multiprocessors, numKvHeads),
    kvChunk: headDim > MOST_HEAD ? LATENT_CHUNK : CHUNK,
    pairCost: 0,
    maxPartialRows: mostPartialRows(numKvHeads, headDim),
    slack: { decode: 0.15, tall: 2 },
    wholeKeys: headDim > MOST_HEAD ? 0 : 5 * UNIT,
  } satisfies Partial<PlannerOptions>;
}

/** Of dims; more are a latent's. */
const MOST_HEAD = 256;

/** Of the partial states of one attention: no more memory than this. */
const MOST_PARTIAL_BYTES = 2 ** 28;

/** Packed rows in partial states of a plan over pages of such heads. */
export function mostPartialRows(numKvHeads: number, keyDim: number): number {
  return Math.min(MOST_PARTIAL_ROWS, Math.floor(MOST_PARTIAL_BYTES / (numKvHeads * (4 * keyDim + 12))));
}

export class CudaKvPool implements KvPool {
  readonly spec: KvPoolSpec;
  readonly address: number;
  readonly byteLength: number;
  readonly layout: KvLayout; // in elements; of i8 and fp8 in bytes
  /** null: attention-plain.cuh serves this pool. */
  readonly shape: Shape | null;
  /** Whether attention-latent.cuh serves it, which has pages in core matrices too. */
  readonly isLatentTiled: boolean;
  /** Pages of decodes come by bulk copies, from sm_90 on where shared memory has room for the ring. */
  readonly isBulk: boolean;

  constructor(spec: KvPoolSpec, address: number, byteLength: number, facts: GpuFacts) {
    this.spec = spec;
    this.address = address;
    this.byteLength = byteLength;
    this.layout = layoutOf(spec, facts);
    this.shape = shapeOf(spec, facts);
    this.isLatentTiled = hasLatentKernel(spec, facts);
    this.isBulk = this.shape !== null && hasBulk(this.shape, spec.dtype, facts);
  }
}

/**
 * An i8 vector is its f32 scale and its codes, together a multiple of 4 bytes; so is one of fp8 where attention-plain.cuh reads it. For the
 * tensor-core kernels it has a factor of 16 bits, with its neighbours' behind the codes of 8 slots (kv-fp8.cuh).
 */
export function layoutOf(spec: PageSpec, facts: GpuFacts): KvLayout {
  if (spec.dtype !== "i8" && spec.dtype !== "fp8") return kvLayout(spec);
  const isTiled = shapeOf(spec, facts) !== null;
  const bytes = (dim: number): number => (isTiled ? dim + 2 : 4 + Math.ceil(dim / 4) * 4);
  return kvLayout({ ...spec, keyDim: bytes(spec.keyDim), valueDim: bytes(spec.valueDim) });
}

export type PageSpec = Omit<KvPoolSpec, "numPages">;

/** Pages of the tensor-core kernels hold their heads in core matrices of 8 slots x 8 dims (attention-mma.cuh). */
function shapeOf({ dtype, keyDim, valueDim, pageSize, isLatent }: PageSpec, facts: GpuFacts): Shape | null {
  if (dtype === "f32" || dtype === "i8" || isLatent === true) return null;
  if (pageSize < 8 || !Number.isInteger(Math.log2(pageSize)) || keyDim % 16 !== 0 || valueDim % 16 !== 0) return null;
  const shape = SHAPES.find(({ dk, dv }) => keyDim <= dk && valueDim <= dv);
  if (shape === undefined) return null;
  const bytes = Math.max(decodeShared(shape, dtype, hasBulk(shape, dtype, facts)), extendShared(shape, dtype));
  return bytes <= facts.sharedBytes ? shape : null;
}

/** The one shape of latents that models have. */
const LATENT = { dk: 576, dv: 512 };

function hasLatentKernel(
  { dtype, keyDim, valueDim, pageSize, isLatent, numKvHeads }: PageSpec,
  facts: GpuFacts,
): boolean {
  if (isLatent !== true || numKvHeads !== 1 || (dtype !== "f16" && dtype !== "bf16")) return false;
  if (pageSize < 8 || !Number.isInteger(Math.log2(pageSize))) return false;
  return keyDim === LATENT.dk && valueDim === LATENT.dv && latentShared() <= facts.sharedBytes;
}

/** Of attention-latent.cuh: a unit of keys, queries of 32 rows, probabilities' fragments, maxima and sums. */
export function latentShared(): number {
  return UNIT * LATENT.dk * 2 + LATENT_ROWS * LATENT.dk * 2 + 2 * (UNIT / 16) * 512 + 2 * 2 * 4 * 16 * 4;
}
/** Packed rows of a block of it. */
export const LATENT_ROWS = 32;

function hasBulk(shape: Shape, dtype: KvDtype, { canOverlap, sharedBytes }: GpuFacts): boolean {
  return canOverlap && decodeShared(shape, dtype, true) <= sharedBytes;
}

/** Of attention-decode.cuh: the ring, q, the probabilities' fragments, sums and maxima. */
export function decodeShared({ dk, dv, bulkSlots, copySlots }: Shape, dtype: KvDtype, isBulk: boolean): number {
  const dim = Math.max(dk, dv);
  const ring = (isBulk ? bulkSlots : copySlots) * UNIT * (dtype === "fp8" ? dim + 2 : 2 * dim);
  return ring + 16 * dk * 2 + (UNIT / 16) * 512 + 4 * 32 * 8 + 4 * 16 * 4;
}

/** attention-wgmma-heads.cu takes exactly these. */
export function isHeadOfTower({ keyDim, valueDim }: PageSpec): boolean {
  return keyDim === valueDim && (keyDim === 80 || keyDim === 96);
}

/** Of attention-prompts.cuh: three slots of keys and of values, and queries; for fp8 two of each, and three slots of 64 keys' codes. */
export function wgmmaShared({ dk, dv }: { readonly dk: number; readonly dv: number }, dtype: KvDtype): number {
  const queries = 128 * dk * 2;
  if (dtype === "fp8") return UNIT * (2 * dk + 2 * dv) * 2 + queries + 3 * 64 * (dk + 2);
  return UNIT * 3 * (dk + dv) * 2 + queries;
}

/** Of attention-extend.cuh: queries, keys and values; of fp8 their codes, and one tile for both. */
export function extendShared({ dk, dv }: Shape, dtype: KvDtype): number {
  const pages = dtype === "fp8" ? Math.max(dk, dv) * 2 + (dk + 2) + (dv + 2) : (dk + dv) * 2;
  return 64 * dk * 2 + UNIT * pages;
}
