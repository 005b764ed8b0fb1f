// The ops that work on rows one by one: norms, elementwise ops, copies. One native call each.

import type { CopyHeads, MapOp, MapSpec, StagedBatch, Tensor } from "../device.js";
import { ACTIVATION_CODE } from "./codes.js";
import type { CpuContext, CpuTensor } from "./memory.js";
import type { CpuStagedBatch } from "./staged-batch.js";

export abstract class CpuRowOps {
  protected abstract readonly context: CpuContext;

  rmsNorm(out: Tensor, x: Tensor, weight: Tensor, eps: number, n: number, groupCols = x.cols): void {
    const { native, handle } = this.context;
    const o = out as CpuTensor;
    const i = x as CpuTensor;
    const w = weight as CpuTensor;
    this.context.check(
      native.pg_rms_norm(
        handle,
        o.address,
        o.stride,
        i.address,
        i.stride,
        w.address,
        w.cols,
        eps,
        n,
        i.cols,
        groupCols,
      ),
      "pg_rms_norm",
    );
  }

  addRmsNorm(out: Tensor, residual: Tensor, x: Tensor, weight: Tensor, eps: number, n: number): void {
    const { native, handle } = this.context;
    const o = out as CpuTensor;
    const r = residual as CpuTensor;
    const i = x as CpuTensor;
    const w = (weight as CpuTensor).address;
    this.context.check(
      native.pg_add_rms_norm(handle, o.address, o.stride, r.address, r.stride, i.address, i.stride, w, eps, n, r.cols),
      "pg_add_rms_norm",
    );
  }

  layerNorm(out: Tensor, x: Tensor, weight: Tensor, bias: Tensor, eps: number, n: number, groupCols = x.cols): void {
    const { native, handle } = this.context;
    const o = out as CpuTensor;
    const i = x as CpuTensor;
    const w = weight as CpuTensor;
    const b = (bias as CpuTensor).address;
    this.context.check(
      native.pg_layer_norm(
        handle,
        o.address,
        o.stride,
        i.address,
        i.stride,
        w.address,
        b,
        w.cols,
        eps,
        n,
        i.cols,
        groupCols,
      ),
      "pg_layer_norm",
    );
  }

  createMap(spec: MapSpec): MapOp {
    return { spec };
  }

  map(out: Tensor, op: MapOp, x: Tensor, y: Tensor | null, n: number, batch: StagedBatch | null = null): void {
    const { spec } = op;
    const { native, handle } = this.context;
    const o = out as CpuTensor;
    const i = x as CpuTensor;
    const j = (y ?? x) as CpuTensor;
    const { address, stride, cols } = o;
    if (isInPlace(spec.kind) && address !== i.address) this.copyHeads(out, x, wholeRow(cols), n);
    let status: number;
    switch (spec.kind) {
      case "add":
        status = native.pg_add(handle, address, stride, i.address, i.stride, j.address, j.stride, spec.scale, n, cols);
        break;
      case "scale":
        status = native.pg_scale(handle, address, stride, spec.factor, n, cols);
        break;
      case "clamp":
        status = native.pg_clamp(handle, address, stride, i.address, i.stride, spec.low, spec.high, n, cols);
        break;
      case "scale_rows":
        status = native.pg_scale_rows(handle, address, stride, j.address, j.stride, n, cols);
        break;
      case "scale_by_position": {
        const { beta, period, shift } = spec;
        const step = (batch as CpuStagedBatch).handle;
        status = native.pg_scale_by_position(handle, address, stride, step, beta, period, shift, cols);
        break;
      }
      case "xielu": {
        const { alphaP, alphaN, beta, eps } = spec;
        status = native.pg_xielu(handle, address, stride, alphaP, alphaN, beta, eps, n, cols);
        break;
      }
      case "softcap":
        status = native.pg_softcap(handle, address, stride, spec.cap, n, cols);
        break;
      case "activation": {
        const kind = ACTIVATION_CODE[spec.activation];
        status = native.pg_activation(handle, address, stride, i.address, i.stride, kind, n, cols);
        break;
      }
      case "gate": {
        const kind = ACTIVATION_CODE[spec.activation];
        const { address: up, stride: upStride } = j;
        status = native.pg_gated_activation(handle, address, stride, i.address, i.stride, up, upStride, kind, n, cols);
        break;
      }
    }
    this.context.check(status, spec.kind);
  }

  gatherLogitRows(out: Tensor, x: Tensor, batch: StagedBatch, first: number, n: number): void {
    const { native, handle } = this.context;
    const o = out as CpuTensor;
    const i = x as CpuTensor;
    const step = (batch as CpuStagedBatch).handle;
    this.context.check(
      native.pg_gather_logit_rows(handle, o.address, o.stride, i.address, i.stride, step, first, n, o.cols),
      "pg_gather_logit_rows",
    );
  }

  copyHeads(out: Tensor, x: Tensor, shape: CopyHeads, n: number): void {
    const { native, handle } = this.context;
    const o = out as CpuTensor;
    const i = x as CpuTensor;
    this.context.check(
      native.pg_copy_heads(
        handle,
        o.address,
        o.stride,
        i.address,
        i.stride,
        n,
        shape.numHeads,
        shape.width,
        shape.outHead,
        shape.outOffset,
        shape.inHead,
        shape.inOffset,
      ),
      "pg_copy_heads",
    );
  }

  /** n rows from host memory [n, cols]. */
  write(x: Tensor, firstRow: number, values: Float32Array, n: number): void {
    const { address, cols, stride } = x as CpuTensor;
    if (firstRow < 0 || n < 0 || firstRow + n > x.rows || values.length < n * cols) {
      throw new RangeError(`rows ${firstRow}..${firstRow + n} of ${x.rows} from ${values.length} numbers`);
    }
    if (n === 0) return;
    const floats = this.context.floats(address + firstRow * stride * 4, (n - 1) * stride + cols);
    for (let r = 0; r < n; r++) floats.set(values.subarray(r * cols, (r + 1) * cols), r * stride);
  }

  /** n rows to host memory [n, cols]. */
  read(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    const { address, cols, stride } = x as CpuTensor;
    if (firstRow < 0 || n < 0 || firstRow + n > x.rows || out.length < n * cols) {
      throw new RangeError(`rows ${firstRow}..${firstRow + n} of ${x.rows} into ${out.length} numbers`);
    }
    this.context.check(
      this.context.native.pg_read_rows(out, address + firstRow * stride * 4, stride, n, cols),
      "pg_read_rows",
    );
  }
}

/** The kernel changes its input. */
function isInPlace(kind: MapSpec["kind"]): boolean {
  return kind !== "add" && kind !== "clamp" && kind !== "activation" && kind !== "gate";
}

function wholeRow(cols: number): CopyHeads {
  return { numHeads: 1, width: cols, outHead: cols, outOffset: 0, inHead: cols, inOffset: 0 };
}
