// The ops that work on rows one by one: norms, elementwise ops, copies. One launch each (native/cuda/rows.cu).

import type { CopyHeads, MapOp, MapSpec, PositionScale, StagedBatch, Tensor, Xielu } from "../device.js";
import { ACTIVATION_CODE } from "./codes.js";
import type { CudaRuntime } from "./runtime.js";
import type { CudaStagedBatch } from "./staged-batch.js";
import type { CudaTensor } from "./tensor.js";

const NORM_THREADS = 1024;
/** Of rows of few columns, in quads. */
const SHORT_THREADS = 256;

export abstract class CudaRowOps {
  protected abstract readonly runtime: CudaRuntime;

  rmsNorm(out: Tensor, x: Tensor, weight: Tensor, eps: number, n: number, groupCols = x.cols): void {
    if (groupCols === x.cols) this.#norm(rmsKernel(out, x, weight), out, x, weight, null, null, null, eps, n);
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
    if (groupCols === x.cols) this.#norm("layer_norm", out, x, weight, bias, null, null, eps, n);
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
    const threads = kernel.startsWith("rms_norm_") ? SHORT_THREADS : NORM_THREADS;
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
        this.#map("map_activation", out, x, null, ACTIVATION_CODE[spec.activation], 0, n, true);
        break;
      case "gate":
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
function rmsKernel(out: Tensor, x: Tensor, weight: Tensor): string {
  const isShort = x.cols % 4 === 0 && x.cols <= 16 * SHORT_THREADS && hasQuads(out) && hasQuads(x) && hasQuads(weight);
  if (!isShort) return "rms_norm";
  return x.cols <= 8 * SHORT_THREADS ? "rms_norm_2" : "rms_norm_4";
}

function hasQuads(x: Tensor): boolean {
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
