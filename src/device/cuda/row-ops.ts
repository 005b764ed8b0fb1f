// The ops that work on rows one by one: norms, elementwise ops, copies. One launch each (native/cuda/rows.cu).

import type { CopyHeads, MapOp, MapSpec, PositionScale, StagedBatch, Tensor, Xielu } from "../device.js";
import { ACTIVATION_CODE } from "./codes.js";
import type { CudaRuntime } from "./runtime.js";
import type { CudaStagedBatch } from "./staged-batch.js";
import type { CudaTensor } from "./tensor.js";

const NORM_THREADS = 1024;
/** Of rows of few columns, in quads. */
const SHORT_THREADS = 256;
/** From so many rows on memory's bandwidth is what an op waits for. */
const MANY_ROWS = 256;

export abstract class CudaRowOps {
  protected abstract readonly runtime: CudaRuntime;

  rmsNorm(out: Tensor, x: Tensor, weight: Tensor, eps: number, n: number, groupCols = x.cols): void {
    if (groupCols === x.cols)
      this.#norm(normKernel("rms_norm", out, x, [weight]), out, x, weight, null, null, null, eps, n);
    else this.#groupNorm(out as CudaTensor, x, weight, null, eps, n, groupCols);
  }

  addRmsNorm(out: Tensor, residual: Tensor, x: Tensor, weight: Tensor, eps: number, n: number): void {
    (residual as CudaTensor).storage.version++;
    this.#norm("add_rms_norm", out, residual, weight, null, residual, x, eps, n);
  }

  layerNorm(
    out: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: number,
    n: number,
    groupCols: number = x.cols,
  ): void {
    if (groupCols === x.cols)
      this.#norm(normKernel("layer_norm", out, x, [weight, bias]), out, x, weight, bias, null, null, eps, n);
    else this.#groupNorm(out as CudaTensor, x, weight, bias, eps, n, groupCols);
  }

  #norm(
    kernel: string,
    out: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | null,
    residual: Tensor | null,
    added: Tensor | null,
    eps: number,
    n: number,
  ): void {
    if (n === 0) return;
    const { queue, modules } = this.runtime;
    const threads = /_[24]$/.test(kernel) ? SHORT_THREADS : NORM_THREADS;
    queue
      .begin(modules.functionOf("rows", kernel), n, 1, 1, threads, 0)
      .long((out as CudaTensor).address)
      .long((x as CudaTensor).address)
      .long((weight as CudaTensor).address)
      .long(addressOf(bias))
      .long(addressOf(residual))
      .long(addressOf(added));
    this.runtime
      .operandOut(out as CudaTensor, n)
      .long(out.stride)
      .long(x.stride)
      .long(residual === null ? 0 : residual.stride)
      .long(added === null ? 0 : added.stride)
      .int(x.cols)
      .float(eps)
      .end();
  }

  #groupNorm(
    out: CudaTensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | null,
    eps: number,
    n: number,
    groupCols: number,
  ): void {
    if (n === 0) return;
    const { queue, modules } = this.runtime;
    const groups = x.cols / groupCols;
    out.storage.version++;
    queue
      .begin(modules.functionOf("rows", "group_norm"), Math.ceil((n * groups) / 8), 1, 1, 256, 0)
      .long(out.address)
      .long((x as CudaTensor).address)
      .long((weight as CudaTensor).address)
      .long(addressOf(bias))
      .long(out.stride)
      .long(x.stride)
      .int(n)
      .int(groups)
      .int(groupCols)
      .int(weight.cols === groupCols ? 0 : groupCols)
      .float(eps)
      .int(0)
      .end();
  }

  createMap(spec: MapSpec): MapOp {
    return { spec };
  }

  map(out: Tensor, op: MapOp, x: Tensor, y: Tensor | null, n: number, batch: StagedBatch | null = null): void {
    if (n === 0) return;
    const { spec } = op;
    const to = out as CudaTensor;
    switch (spec.kind) {
      case "add":
        this.#map("map_add", out, x, y, 0, spec.scale, n);
        break;
      case "scale":
        this.#map("map_scale", out, x, null, 0, spec.factor, n);
        break;
      case "scale_rows":
        this.#map("map_scale_rows", out, x, y, 0, 0, n);
        break;
      case "clamp":
        this.#map("map_clamp", out, x, null, 0, spec.low, n, false, spec.high);
        break;
      case "softcap":
        this.#map("map_softcap", out, x, null, 0, spec.cap, n);
        break;
      case "activation":
        if (n >= MANY_ROWS && this.#activateQuads(to, x as CudaTensor, null, ACTIVATION_CODE[spec.activation], n))
          break;
        this.#map("map_activation", out, x, null, ACTIVATION_CODE[spec.activation], 0, n, true);
        break;
      case "gate":
        if (this.#activateQuads(to, x as CudaTensor, y as CudaTensor, ACTIVATION_CODE[spec.activation], n)) break;
        this.#map("map_gated", out, x, y, ACTIVATION_CODE[spec.activation], 0, n, true);
        break;
      case "scale_by_position":
        if (to.address !== (x as CudaTensor).address) this.copyHeads(out, x, wholeRow(x.cols), n);
        this.#scaleByPosition(to, spec, batch as CudaStagedBatch);
        break;
      case "xielu":
        if (to.address !== (x as CudaTensor).address) this.copyHeads(out, x, wholeRow(x.cols), n);
        this.#xielu(to, spec, n);
        break;
    }
  }

  /** act(x), or act(x) * y, in quads; false: it did nothing. */
  #activateQuads(out: CudaTensor, x: CudaTensor, y: CudaTensor | null, kind: number, n: number): boolean {
    if (n === 0 || out.cols % 4 !== 0 || !hasQuads(out) || !hasQuads(x) || (y !== null && !hasQuads(y))) return false;
    const { queue, modules } = this.runtime;
    const threads = Math.ceil(out.cols / 4);
    const blocks = Math.ceil(threads / SHORT_THREADS);
    queue
      .begin(modules.functionOf("towers", "activate_quads"), n, blocks, 1, SHORT_THREADS, 0)
      .long(out.address)
      .long(x.address)
      .long(y === null ? 0 : y.address);
    this.runtime
      .operandOut(out, n)
      .long(out.stride)
      .long(x.stride)
      .long(y === null ? 0 : y.stride)
      .int(out.cols)
      .int(kind)
      .end();
    return true;
  }

  #scaleByPosition(x: CudaTensor, { beta, period, shift }: PositionScale, batch: CudaStagedBatch): void {
    const { positions, numTokens } = batch;
    x.storage.version++;
    this.runtime
      .overRows("rows", "scale_by_position", x.cols, numTokens)
      .long(x.address)
      .long(positions)
      .long(x.stride)
      .int(x.cols)
      .float(beta)
      .float(period)
      .float(shift)
      .end();
  }

  #xielu(x: CudaTensor, { alphaP, alphaN, beta, eps }: Xielu, n: number): void {
    x.storage.version++;
    this.runtime
      .overRows("rows", "xielu", x.cols, n)
      .long(x.address)
      .long(x.stride)
      .int(x.cols)
      .float(alphaP)
      .float(alphaN)
      .float(beta)
      .float(eps)
      .int(0)
      .end();
  }

  #map(
    kernel: string,
    out: Tensor,
    x: Tensor,
    y: Tensor | null,
    kind: number,
    factor: number,
    n: number,
    writesOperand = false,
    limit = 0,
  ): void {
    const to = out as CudaTensor;
    this.runtime
      .overRows("rows", kernel, to.cols, n)
      .long(to.address)
      .long((x as CudaTensor).address)
      .long(addressOf(y));
    if (writesOperand) this.runtime.operandOut(to, n);
    else {
      to.storage.version++;
      this.runtime.noOperand();
    }
    this.runtime.queue
      .long(to.stride)
      .long(x.stride)
      .long(y === null ? 0 : y.stride)
      .int(to.cols)
      .int(kind)
      .float(factor)
      .float(limit)
      .end();
  }

  gatherLogitRows(out: Tensor, x: Tensor, batch: StagedBatch, first: number, n: number): void {
    if (n === 0) return;
    this.runtime
      .overRows("rows", "gather_rows", out.cols, n)
      .long((out as CudaTensor).address)
      .long((x as CudaTensor).address)
      .long((batch as CudaStagedBatch).logitRows + 4 * first);
    this.runtime
      .operandOut(out as CudaTensor, n)
      .long(out.stride)
      .long(x.stride)
      .int(out.cols)
      .int(0)
      .end();
  }

  copyHeads(out: Tensor, x: Tensor, shape: CopyHeads, n: number): void {
    if (n === 0) return;
    (out as CudaTensor).storage.version++;
    this.runtime
      .overRows("rows", "copy_heads", shape.numHeads * shape.width, n)
      .long((out as CudaTensor).address)
      .long((x as CudaTensor).address)
      .long(out.stride)
      .long(x.stride)
      .int(shape.numHeads)
      .int(shape.width)
      .int(shape.outHead)
      .int(shape.outOffset)
      .int(shape.inHead)
      .int(shape.inOffset)
      .end();
  }
}

/** The short kernels take rows of quads that are aligned to 16 bytes. */
function normKernel(name: "rms_norm" | "layer_norm", out: Tensor, x: Tensor, parts: readonly Tensor[]): string {
  const isShort = x.cols % 4 === 0 && x.cols <= 16 * SHORT_THREADS && [out, x, ...parts].every(hasQuads);
  if (!isShort) return name;
  return x.cols <= 8 * SHORT_THREADS ? `${name}_2` : `${name}_4`;
}

export function hasQuads(x: Tensor): boolean {
  return x.stride % 4 === 0 && (x as CudaTensor).address % 16 === 0;
}

/** Whether pairs of columns are aligned to 8 bytes. */
export function hasPairs(x: Tensor): boolean {
  return x.stride % 2 === 0 && (x as CudaTensor).address % 8 === 0;
}

export function addressOf(x: Tensor | null): number {
  return x === null ? 0 : (x as CudaTensor).address;
}

function wholeRow(cols: number): CopyHeads {
  return { numHeads: 1, width: cols, outHead: cols, outOffset: 0, inHead: cols, inOffset: 0 };
}
