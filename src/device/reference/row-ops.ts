// The ops that work on rows one by one: lookups, norms, elementwise ops, copies.

import type { CopyHeads, MapOp, MapSpec, StagedBatch, Tensor, Weight } from "../device.js";
import { ReferenceMap } from "./elementwise.js";
import { layerNorm, rmsNorm } from "./norm.js";
import type { ReferenceStagedBatch } from "./staged-batch.js";
import type { ReferenceTensor, ReferenceWeight } from "./tensor.js";

const ADD = new ReferenceMap({ kind: "add", scale: 1 });

export abstract class ReferenceRowOps {
  embed(out: Tensor, table: Weight, staged: StagedBatch, scale: number): void {
    const { data, offset, cols, stride } = out as ReferenceTensor;
    const { inputIds } = (staged as ReferenceStagedBatch).batch;
    const rows = (table as ReferenceWeight).data;
    for (let t = 0; t < staged.numTokens; t++) {
      const from = inputIds[t]! * cols;
      for (let c = 0; c < cols; c++) data[offset + t * stride + c] = scale * rows[from + c]!;
    }
  }

  addPositions(out: Tensor, table: Weight, staged: StagedBatch): void {
    this.#addRows(out, table, (staged as ReferenceStagedBatch).batch.positions, staged.numTokens);
  }

  addTypes(out: Tensor, table: Weight, staged: StagedBatch): void {
    this.#addRows(out, table, (staged as ReferenceStagedBatch).batch.tokenTypes, staged.numTokens);
  }

  #addRows(out: Tensor, table: Weight, indices: Int32Array, n: number): void {
    const { data, offset, cols, stride } = out as ReferenceTensor;
    const rows = (table as ReferenceWeight).data;
    for (let t = 0; t < n; t++) {
      const from = indices[t]! * cols;
      for (let c = 0; c < cols; c++) data[offset + t * stride + c]! += rows[from + c]!;
    }
  }

  rmsNorm(out: Tensor, x: Tensor, weight: Tensor, eps: number, n: number, groupCols = x.cols): void {
    rmsNorm(out as ReferenceTensor, x as ReferenceTensor, weight as ReferenceTensor, eps, n, groupCols);
  }

  addRmsNorm(out: Tensor, residual: Tensor, x: Tensor, weight: Tensor, eps: number, n: number): void {
    this.map(residual, ADD, residual, x, n);
    this.rmsNorm(out, residual, weight, eps, n);
  }

  layerNorm(out: Tensor, x: Tensor, weight: Tensor, bias: Tensor, eps: number, n: number, groupCols = x.cols): void {
    const w = weight as ReferenceTensor;
    layerNorm(out as ReferenceTensor, x as ReferenceTensor, w, bias as ReferenceTensor, eps, n, groupCols);
  }

  createMap(spec: MapSpec): ReferenceMap {
    return new ReferenceMap(spec);
  }

  map(out: Tensor, op: MapOp, x: Tensor, y: Tensor | null, n: number, batch: StagedBatch | null = null): void {
    (op as ReferenceMap).run(out as ReferenceTensor, x as ReferenceTensor, y as ReferenceTensor | null, n, batch);
  }

  gatherLogitRows(out: Tensor, x: Tensor, staged: StagedBatch, first: number, n: number): void {
    const o = out as ReferenceTensor;
    const i = x as ReferenceTensor;
    const { logitRows } = (staged as ReferenceStagedBatch).batch;
    for (let r = 0; r < n; r++) {
      const from = i.offset + logitRows[first + r]! * i.stride;
      for (let c = 0; c < o.cols; c++) o.data[o.offset + r * o.stride + c] = i.data[from + c]!;
    }
  }

  copyHeads(out: Tensor, x: Tensor, shape: CopyHeads, n: number): void {
    const o = out as ReferenceTensor;
    const i = x as ReferenceTensor;
    for (let t = 0; t < n; t++) {
      for (let h = 0; h < shape.numHeads; h++) {
        const from = i.offset + t * i.stride + h * shape.inHead + shape.inOffset;
        const to = o.offset + t * o.stride + h * shape.outHead + shape.outOffset;
        for (let c = 0; c < shape.width; c++) o.data[to + c] = i.data[from + c]!;
      }
    }
  }

  write(x: Tensor, firstRow: number, values: Float32Array, n: number): void {
    for (let r = 0; r < n; r++)
      (x as ReferenceTensor).row(firstRow + r).set(values.subarray(r * x.cols, (r + 1) * x.cols));
  }

  read(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    for (let r = 0; r < n; r++) out.set((x as ReferenceTensor).row(firstRow + r), r * x.cols);
  }
}
