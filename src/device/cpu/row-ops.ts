// The ops that work on rows one by one: norms, elementwise ops, copies. One native call each.

import type { Activation, CopyHeads, PositionScale, StagedBatch, Tensor, Xielu } from "../device.js";
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

  add(out: Tensor, a: Tensor, b: Tensor, scale: number, n: number): void {
    const { native, handle } = this.context;
    const o = out as CpuTensor;
    const l = a as CpuTensor;
    const r = b as CpuTensor;
    this.context.check(
      native.pg_add(handle, o.address, o.stride, l.address, l.stride, r.address, r.stride, scale, n, o.cols),
      "pg_add",
    );
  }

  scale(x: Tensor, factor: number, n: number): void {
    const { address, stride, cols } = x as CpuTensor;
    this.context.check(this.context.native.pg_scale(this.context.handle, address, stride, factor, n, cols), "pg_scale");
  }

  clamp(out: Tensor, x: Tensor, low: number, high: number, n: number): void {
    const { native, handle } = this.context;
    const o = out as CpuTensor;
    const from = x as CpuTensor;
    this.context.check(
      native.pg_clamp(handle, o.address, o.stride, from.address, from.stride, low, high, n, o.cols),
      "pg_clamp",
    );
  }

  scaleRows(x: Tensor, factors: Tensor, n: number): void {
    const { address, stride, cols } = x as CpuTensor;
    const f = factors as CpuTensor;
    this.context.check(
      this.context.native.pg_scale_rows(this.context.handle, address, stride, f.address, f.stride, n, cols),
      "pg_scale_rows",
    );
  }

  scaleByPosition(x: Tensor, { beta, period, shift }: PositionScale, batch: StagedBatch): void {
    const { native, handle } = this.context;
    const { address, stride, cols } = x as CpuTensor;
    const step = (batch as CpuStagedBatch).handle;
    this.context.check(
      native.pg_scale_by_position(handle, address, stride, step, beta, period, shift, cols),
      "pg_scale_by_position",
    );
  }

  xielu(x: Tensor, { alphaP, alphaN, beta, eps }: Xielu, n: number): void {
    const { address, stride, cols } = x as CpuTensor;
    this.context.check(
      this.context.native.pg_xielu(this.context.handle, address, stride, alphaP, alphaN, beta, eps, n, cols),
      "pg_xielu",
    );
  }

  softcap(x: Tensor, cap: number, n: number): void {
    const { address, stride, cols } = x as CpuTensor;
    this.context.check(
      this.context.native.pg_softcap(this.context.handle, address, stride, cap, n, cols),
      "pg_softcap",
    );
  }

  gatedActivation(out: Tensor, gate: Tensor, up: Tensor, activation: Activation, n: number): void {
    const { native, handle } = this.context;
    const o = out as CpuTensor;
    const g = gate as CpuTensor;
    const u = up as CpuTensor;
    const kind = ACTIVATION_CODE[activation];
    this.context.check(
      native.pg_gated_activation(
        handle,
        o.address,
        o.stride,
        g.address,
        g.stride,
        u.address,
        u.stride,
        kind,
        n,
        o.cols,
      ),
      "pg_gated_activation",
    );
  }

  activation(out: Tensor, x: Tensor, activation: Activation, n: number): void {
    const { native, handle } = this.context;
    const o = out as CpuTensor;
    const i = x as CpuTensor;
    this.context.check(
      native.pg_activation(handle, o.address, o.stride, i.address, i.stride, ACTIVATION_CODE[activation], n, o.cols),
      "pg_activation",
    );
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
