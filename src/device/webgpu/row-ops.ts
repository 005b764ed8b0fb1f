// The ops that work on rows one by one: lookups, norms, elementwise ops, copies, products.

import type { Activation } from "../../core/activation.js";
import type { CopyHeads, HeadWeights, MapOp, MapSpec, MatmulOptions, StagedBatch, Tensor, Weight } from "../device.js";
import type { GpuBuffer, GpuQueue } from "./gpu-queue.js";
import type { Kernel } from "./kernel.js";
import * as elementwise from "./kernels/elementwise.js";
import { BLOCK_UNIT, isFloat } from "./kernels/encodings.js";
import { gatedKernelsOf } from "./kernels/matmul.js";
import { heightOf, SERIAL_ROWS, VECTOR_SHAPES, VECTOR_TOKENS } from "./kernels/matvec.js";
import { ADD_RMS_NORM, LAYER_NORM, type NormKernels, RMS_NORM } from "./kernels/norms.js";
import { TILE_SHAPES, tileSize } from "./kernels/tile.js";
import { RoundedRows } from "./rounded-rows.js";
import type { GpuStagedBatch } from "./staged-batch.js";
import { GpuHeadWeights, type GpuTensor, type GpuWeight } from "./tensor.js";

/** Rows from which on tiles read a weight fewer times than the matvec does. */
const TILE_ROWS = 17;

/** An elementwise op: its kernel and its numbers. */
export class GpuMap implements MapOp {
  readonly spec: MapSpec;
  readonly kernel: Kernel;
  /** Of what comes before a product: rounds its rows too. */
  readonly rounding: Kernel | null;
  readonly numbers: readonly number[];

  constructor(spec: MapSpec) {
    this.spec = spec;
    this.rounding = spec.kind === "gate" || spec.kind === "activation" ? elementwise.mapKernel(spec, true) : null;
    this.kernel = elementwise.mapKernel(spec);
    this.numbers = elementwise.numbersOf(spec);
  }
}

/** The first of VECTOR_TOKENS that takes n rows at once, or the last. */
function formOf(n: number): number {
  let form = 0;
  while (form < VECTOR_TOKENS.length - 1 && VECTOR_TOKENS[form]! < n) form++;
  return form;
}

export abstract class GpuRowOps {
  protected readonly queue: GpuQueue;
  /** Bound where an operand is not used. */
  protected readonly nothing: GpuBuffer;
  protected readonly rounded: RoundedRows;

  constructor(queue: GpuQueue) {
    this.queue = queue;
    this.nothing = queue.alloc(64, "nothing");
    this.rounded = new RoundedRows(queue);
  }

  embed(out: Tensor, table: Weight, staged: StagedBatch, scale: number): void {
    const { inputIds, numTokens } = staged as GpuStagedBatch;
    this.#lookUp(
      (table as GpuWeight).kernels.embed,
      out as GpuTensor,
      table as GpuWeight,
      staged as GpuStagedBatch,
      inputIds,
      scale,
      numTokens,
    );
  }

  addPositions(out: Tensor, table: Weight, staged: StagedBatch): void {
    const { positions, numTokens } = staged as GpuStagedBatch;
    this.#lookUp(
      (table as GpuWeight).kernels.addRows,
      out as GpuTensor,
      table as GpuWeight,
      staged as GpuStagedBatch,
      positions,
      1,
      numTokens,
    );
  }

  addTypes(out: Tensor, table: Weight, staged: StagedBatch): void {
    const { tokenTypes, numTokens } = staged as GpuStagedBatch;
    this.#lookUp(
      (table as GpuWeight).kernels.addRows,
      out as GpuTensor,
      table as GpuWeight,
      staged as GpuStagedBatch,
      tokenTypes,
      1,
      numTokens,
    );
  }

  #lookUp(
    kernel: Kernel,
    out: GpuTensor,
    table: GpuWeight,
    staged: GpuStagedBatch,
    indices: number,
    scale: number,
    n: number,
  ): void {
    for (const { buffer, firstRow, rows, factorsAt } of table.parts) {
      this.queue.begin(kernel).operand(out.buffer).operand(buffer);
      if (!isFloat(table.dtype)) this.queue.operand(buffer);
      this.queue
        .operand(staged.buffer)
        .operand(staged.previous)
        .u32(out.cols)
        .u32(out.offset)
        .u32(out.stride)
        .u32(table.units)
        .u32(factorsAt)
        .u32(rows)
        .u32(firstRow)
        .u32(indices)
        .f32(scale)
        .dispatch(Math.ceil(out.cols / 128), n);
    }
  }

  matmul(out: Tensor, x: Tensor, weight: Weight, n: number, options?: MatmulOptions): void {
    const o = out as GpuTensor;
    const i = x as GpuTensor;
    const w = weight as GpuWeight;
    if (n === 0) return;
    const isBlock = !isFloat(w.dtype);
    if (isBlock) this.rounded.of(i, n);
    const isWide = !isBlock && i.offset % 4 === 0 && i.stride % 4 === 0 && i.cols % 8 === 0 && i.buffer !== o.buffer;
    const { matvec, tile, serial } = isWide ? w.kernels.wide : w.kernels.narrow;
    const isTile = n >= TILE_ROWS;
    const form = formOf(n);
    const { isSerial, tiles } = this.queue;
    const kernel = isSerial ? serial : isTile ? tile[tiles] : matvec[form]!;
    const tokens = VECTOR_TOKENS[form]!;
    const size = tileSize(TILE_SHAPES[tiles]);
    const height = isSerial ? SERIAL_ROWS : isTile ? size.height : heightOf(VECTOR_SHAPES[tokens]!);
    const depth = isSerial ? 1 : isTile ? size.depth : tokens;
    const bias = (options?.bias as GpuTensor | null | undefined) ?? null;
    for (const { buffer, firstRow, rows, factorsAt } of w.parts) {
      const { queue } = this;
      queue.begin(kernel).operand(o.buffer);
      if (isBlock) queue.operand(this.rounded.codes).operand(this.rounded.factors).operand(buffer).operand(buffer);
      else queue.operand(i.buffer).operand(buffer);
      queue
        .operand(bias === null ? this.nothing : bias.buffer)
        .u32(rows)
        .u32(firstRow)
        .u32(w.units)
        .u32(factorsAt)
        .u32(n)
        .u32(o.offset)
        .u32(o.stride)
        .u32(bias === null ? 0 : 1)
        .u32(bias === null ? 0 : bias.offset)
        .u32(options?.accumulate === true ? 1 : 0)
        .f32(options?.scale ?? 1);
      if (isBlock) queue.u32(i.cols / BLOCK_UNIT);
      else queue.u32(i.offset).u32(i.stride).u32(i.cols);
      const [high, deep] = [Math.ceil(rows / height), Math.ceil(n / depth)];
      // Tiles of the same rows follow each other: the weights come from memory once.
      if (isTile && !isSerial) queue.dispatch(deep, high);
      else queue.dispatch(high, deep);
    }
  }

  /** Few rows of codes that meet codes, whose outputs are rounded for the next product. */
  gatedMatmul(out: Tensor, x: Tensor, weight: Weight, activation: Activation, n: number): boolean {
    const { dtype, parts, units, rows } = weight as GpuWeight;
    const inner = rows / 2;
    const isFew = n > 0 && n < TILE_ROWS && !this.queue.isSerial;
    if (isFloat(dtype) || !isFew || inner % BLOCK_UNIT !== 0 || parts.length > 1) return false;
    const { queue, rounded } = this;
    const o = out as GpuTensor;
    rounded.of(x as GpuTensor, n);
    const beside = rounded.besideFor(o);
    const form = formOf(n);
    const { buffer, factorsAt } = parts[0]!;
    queue
      .begin(gatedKernelsOf(dtype, activation)[form]!)
      .operand(o.buffer)
      .operand(beside.codes)
      .operand(beside.factors)
      .operand(rounded.codes)
      .operand(rounded.factors)
      .operand(buffer)
      .operand(buffer)
      .u32(inner)
      .u32(units)
      .u32(factorsAt)
      .u32(n)
      .u32(o.offset)
      .u32(o.stride)
      .u32(x.cols / BLOCK_UNIT)
      .dispatch(inner / BLOCK_UNIT, Math.ceil(n / VECTOR_TOKENS[form]!));
    rounded.turn();
    rounded.hold(o, n);
    return true;
  }

  bindHeads(weights: readonly Weight[]): GpuHeadWeights {
    return new GpuHeadWeights(weights as readonly GpuWeight[]);
  }

  headMatmul(out: Tensor, x: Tensor, heads: HeadWeights, outHead: number, xHead: number, n: number): void {
    const { weights } = heads as GpuHeadWeights;
    (heads as GpuHeadWeights).view(out as GpuTensor, x as GpuTensor, outHead, xHead);
    const { outs, xs } = heads as GpuHeadWeights;
    for (let h = 0; h < weights.length; h++) this.matmul(outs[h]!, xs[h]!, weights[h]!, n);
  }

  rmsNorm(out: Tensor, x: Tensor, weight: Tensor, eps: number, n: number, groupCols = x.cols): void {
    this.#norm(RMS_NORM, out as GpuTensor, null, x as GpuTensor, weight as GpuTensor, null, eps, n, groupCols);
  }

  addRmsNorm(out: Tensor, residual: Tensor, x: Tensor, weight: Tensor, eps: number, n: number): void {
    this.#norm(
      ADD_RMS_NORM,
      out as GpuTensor,
      residual as GpuTensor,
      x as GpuTensor,
      weight as GpuTensor,
      null,
      eps,
      n,
      x.cols,
    );
  }

  layerNorm(out: Tensor, x: Tensor, weight: Tensor, bias: Tensor, eps: number, n: number, groupCols = x.cols): void {
    this.#norm(
      LAYER_NORM,
      out as GpuTensor,
      null,
      x as GpuTensor,
      weight as GpuTensor,
      bias as GpuTensor,
      eps,
      n,
      groupCols,
    );
  }

  #norm(
    kernels: NormKernels,
    out: GpuTensor,
    residual: GpuTensor | null,
    x: GpuTensor,
    weight: GpuTensor,
    bias: GpuTensor | null,
    eps: number,
    n: number,
    groupCols: number,
  ): void {
    const { queue, rounded } = this;
    const rounds = groupCols === x.cols && rounded.isFor(out);
    if (rounds) rounded.reserveFor(out);
    queue.begin(rounds ? kernels.rounds : kernels.plain).operand(out.buffer);
    if (residual !== null) queue.operand(residual.buffer);
    queue.operand(x.buffer).operand(weight.buffer);
    if (bias !== null) queue.operand(bias.buffer);
    if (rounds) queue.operand(rounded.codes).operand(rounded.factors);
    queue.u32(groupCols).u32(out.offset).u32(out.stride);
    if (residual !== null) queue.u32(residual.offset).u32(residual.stride);
    queue
      .u32(x.offset)
      .u32(x.stride)
      .u32(weight.offset)
      .u32(weight.cols === groupCols ? 0 : groupCols)
      .u32(bias === null ? 0 : bias.offset)
      .f32(eps)
      .dispatch(x.cols / groupCols, n);
    if (rounds) rounded.hold(out, n);
  }

  createMap(spec: MapSpec): GpuMap {
    return new GpuMap(spec);
  }

  map(out: Tensor, op: MapOp, x: Tensor, y: Tensor | null, n: number, staged?: StagedBatch): void {
    const { kernel, rounding, numbers } = op as GpuMap;
    const second = (y ?? x) as GpuTensor;
    const step = staged as GpuStagedBatch | undefined;
    const { queue, rounded } = this;
    const rounds = rounding !== null && rounded.isFor(out as GpuTensor);
    if (rounds) rounded.reserveFor(out as GpuTensor);
    queue
      .begin(rounds ? rounding : kernel)
      .operand((out as GpuTensor).buffer)
      .operand((x as GpuTensor).buffer)
      .operand(second.buffer)
      .operand(step === undefined ? this.nothing : step.buffer);
    if (rounds) queue.operand(rounded.codes).operand(rounded.factors);
    queue
      .u32(out.cols)
      .u32((out as GpuTensor).offset)
      .u32(out.stride)
      .u32((x as GpuTensor).offset)
      .u32(x.stride)
      .u32(second.offset)
      .u32(second.stride)
      .u32(step === undefined ? 0 : step.positions);
    for (let i = 0; i < numbers.length; i++) queue.f32(numbers[i]!);
    queue.dispatch(Math.ceil(out.cols / (rounds ? elementwise.EACH_ROUNDED : elementwise.EACH)), n);
    if (rounds) rounded.hold(out as GpuTensor, n);
  }

  gatherLogitRows(out: Tensor, x: Tensor, staged: StagedBatch, first: number, n: number): void {
    const { buffer, logitRows } = staged as GpuStagedBatch;
    this.queue
      .begin(elementwise.GATHER)
      .operand((out as GpuTensor).buffer)
      .operand((x as GpuTensor).buffer)
      .operand(buffer)
      .u32(out.cols)
      .u32((out as GpuTensor).offset)
      .u32(out.stride)
      .u32((x as GpuTensor).offset)
      .u32(x.stride)
      .u32(logitRows + first)
      .dispatch(Math.ceil(out.cols / elementwise.EACH), n);
  }

  copyHeads(out: Tensor, x: Tensor, shape: CopyHeads, n: number): void {
    const { numHeads, width, outHead, outOffset, inHead, inOffset } = shape;
    const o = out as GpuTensor;
    const i = x as GpuTensor;
    this.queue
      .begin(elementwise.COPY_HEADS)
      .operand(o.buffer)
      .operand(i.buffer)
      .u32(numHeads * width)
      .u32(o.offset)
      .u32(o.stride)
      .u32(i.offset)
      .u32(i.stride)
      .u32(width)
      .u32(outHead)
      .u32(outOffset)
      .u32(inHead)
      .u32(inOffset)
      .dispatch(Math.ceil((numHeads * width) / elementwise.EACH), n);
  }
}
