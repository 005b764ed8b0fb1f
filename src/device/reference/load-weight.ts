// Checkpoint tensors to one f32 matrix. A quantised weight holds the numbers its quantisation can represent.

import { dequantize, toFloat32 } from "../../core/dequantize/dequantize.js";
import { quantizeQ4, quantizeQ8 } from "../../core/dequantize/quantize.js";
import type { HostTensor } from "../../core/tensor.js";
import type { WeightQuantization } from "../device.js";
import { checkBytes } from "./allocation.js";
import { ReferenceWeight } from "./tensor.js";

const BLOCK = 32;

/** Stacks [rows, cols] parts along their rows; `transposed` parts are [cols, rows]. Parts agree in cols. */
export function loadWeight(
  parts: readonly HostTensor[],
  quantize: WeightQuantization,
  transposed: boolean,
): ReferenceWeight {
  const shapes = parts.map(({ shape }) => (transposed ? [shape[1]!, shape[0]!] : [shape[0]!, shape[1]!]));
  const cols = shapes[0]![1]!;
  const rows = shapes.reduce((sum, shape) => sum + shape[0]!, 0);
  if (parts.some(({ shape }) => shape.length !== 2) || shapes.some((shape) => shape[1] !== cols)) {
    throw new RangeError(`cannot stack ${parts.map((p) => `${p.name} [${p.shape}]`).join(", ")}`);
  }
  checkBytes(rows * cols * 4, `${parts[0]!.name} as f32`);
  const data = new Float32Array(rows * cols);
  let at = 0;
  for (const part of parts) {
    const values = toFloat32(part);
    data.set(transposed ? transpose(values, part.shape[0]!, part.shape[1]!) : values, at);
    at += values.length;
  }
  // Quantised blocks lie along the row; a matrix that has no whole number of them stays as it is.
  if (quantize !== "none" && cols % BLOCK === 0) roundTrip(data, rows, cols, quantize);
  return new ReferenceWeight(data, rows, cols, "f32");
}

function transpose(values: Float32Array, rows: number, cols: number): Float32Array {
  const out = new Float32Array(values.length);
  for (let r = 0; r < rows; r++) for (let c = 0; c < cols; c++) out[c * rows + r] = values[r * cols + c]!;
  return out;
}

function roundTrip(data: Float32Array, rows: number, cols: number, quantize: "q8" | "q4"): void {
  if (quantize === "q8") dequantize("q8_0", quantizeQ8(data, rows, cols), data, data.length);
  else dequantize("q4_0", quantizeQ4(data, rows, cols), data, data.length);
}
