// Resizing pictures as Hugging Face's processors do, to the last bit: a filter whose support grows with the reduction (antialiasing), columns
// first, then rows, both in integers. Pillow keeps 22 bits of the weights; torchvision, which serves the processors by default, keeps as many
// as let the largest weight of an axis fit into 16 bits.

import type { Picture } from "./picture.js";

export type Filter = "box" | "bilinear" | "hamming" | "bicubic" | "lanczos";
/** Whose arithmetic. */
export type Arithmetic = "pillow" | "torchvision";

const SUPPORT: Readonly<Record<Filter, number>> = {
  box: 0.5,
  bilinear: 1,
  hamming: 1,
  bicubic: 2,
  lanczos: 3,
};

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI);
}

/** The filter at a distance, within its support. */
function weightAt(filter: Filter, distance: number): number {
  const x = Math.abs(distance);
  switch (filter) {
    case "box":
      return distance > -0.5 && distance <= 0.5 ? 1 : 0;
    case "bilinear":
      return x < 1 ? 1 - x : 0;
    case "hamming":
      return x === 0 ? 1 : x >= 1 ? 0 : sinc(x) * (0.54 + 0.46 * Math.cos(x * Math.PI));
    case "bicubic": {
      const a = -0.5;
      if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
      return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
    }
    case "lanczos":
      return distance >= -3 && distance < 3 ? sinc(distance) * sinc(distance / 3) : 0;
  }
}

/** Which inputs each output of an axis is made of, and how much of each. */
interface AxisWeights {
  readonly starts: Int32Array; // [size] the first input
  readonly counts: Int32Array; // [size]
  readonly weights: Int32Array; // [size, most]
  readonly most: number;
  /** Weights are multiples of 2^-bits. */
  readonly bits: number;
}

function axisWeights(from: number, to: number, filter: Filter, arithmetic: Arithmetic): AxisWeights {
  const scale = from / to;
  const spread = Math.max(scale, 1);
  const inverse = 1 / spread;
  const support = SUPPORT[filter] * spread;
  const most = Math.ceil(support) * 2 + 1;
  const starts = new Int32Array(to);
  const counts = new Int32Array(to);
  const exact = new Float64Array(to * most);
  for (let i = 0; i < to; i++) {
    const center = (i + 0.5) * scale;
    const start = Math.max(Math.trunc(center - support + 0.5), 0);
    const count = Math.min(Math.trunc(center + support + 0.5), from) - start;
    let sum = 0;
    for (let j = 0; j < count; j++) {
      const weight = weightAt(filter, (j + start - center + 0.5) * inverse);
      exact[i * most + j] = weight;
      sum += weight;
    }
    if (sum !== 0) for (let j = 0; j < count; j++) exact[i * most + j]! /= sum;
    starts[i] = start;
    counts[i] = count;
  }
  const bits = arithmetic === "pillow" ? 22 : bitsFor(exact);
  const weights = Int32Array.from(exact, (weight) => Math.trunc(weight * 2 ** bits + (weight < 0 ? -0.5 : 0.5)));
  return { starts, counts, weights, most, bits };
}

/** The most bits with which the largest weight is below 2^15. */
function bitsFor(weights: Float64Array): number {
  let largest = 0;
  for (const weight of weights) largest = Math.max(largest, weight);
  let bits = 0;
  while (bits < 22 && Math.trunc(0.5 + largest * 2 ** (bits + 1)) < 2 ** 15) bits++;
  return bits;
}

export function resize(
  picture: Picture,
  width: number,
  height: number,
  filter: Filter,
  arithmetic: Arithmetic = "torchvision",
): Picture {
  const wide =
    picture.width === width ? picture : resizeWidth(picture, axisWeights(picture.width, width, filter, arithmetic));
  return wide.height === height ? wide : resizeHeight(wide, axisWeights(wide.height, height, filter, arithmetic));
}

function clamped(sum: number, bits: number): number {
  const value = Math.floor(sum / 2 ** bits);
  return value < 0 ? 0 : value > 255 ? 255 : value;
}

function resizeWidth({ width, height, data }: Picture, axis: AxisWeights): Picture {
  const { starts, counts, weights, most, bits } = axis;
  const out = new Uint8Array(starts.length * height * 3);
  const half = 2 ** (bits - 1);
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < starts.length; x++, at += 3) {
      let red = half;
      let green = half;
      let blue = half;
      let from = (y * width + starts[x]!) * 3;
      for (let j = 0; j < counts[x]!; j++, from += 3) {
        const weight = weights[x * most + j]!;
        red += data[from]! * weight;
        green += data[from + 1]! * weight;
        blue += data[from + 2]! * weight;
      }
      out[at] = clamped(red, bits);
      out[at + 1] = clamped(green, bits);
      out[at + 2] = clamped(blue, bits);
    }
  }
  return { width: starts.length, height, data: out };
}

function resizeHeight({ width, data }: Picture, axis: AxisWeights): Picture {
  const { starts, counts, weights, most, bits } = axis;
  const row = width * 3;
  const out = new Uint8Array(starts.length * row);
  const sums = new Float64Array(row);
  for (let y = 0; y < starts.length; y++) {
    sums.fill(2 ** (bits - 1));
    for (let j = 0; j < counts[y]!; j++) {
      const weight = weights[y * most + j]!;
      const from = (starts[y]! + j) * row;
      for (let i = 0; i < row; i++) sums[i]! += data[from + i]! * weight;
    }
    for (let i = 0; i < row; i++) out[y * row + i] = clamped(sums[i]!, bits);
  }
  return { width, height: starts.length, data: out };
}
