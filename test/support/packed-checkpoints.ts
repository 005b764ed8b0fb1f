// Matrices of small integers packed as GPTQ, AWQ and compressed-tensors checkpoints hold them: each integer is put where the
// format's definition says, one by one. Written for tests and shared with nothing in src/.

import { f16ToF32, f32ToF16 } from "../../src/core/dequantize/small-floats.js";
import type { SafetensorsEntry } from "./safetensors-writer.js";

let seed = 5;
export function random(below: number): number {
  seed ^= seed << 13;
  seed ^= seed >>> 17;
  seed ^= seed << 5;
  return (seed >>> 0) % below;
}

/** A matrix [out, in] of codes with a scale and zero per (output, group of inputs). */
export interface Coded {
  readonly out: number;
  readonly in: number;
  readonly bits: 4 | 8;
  readonly codes: number[]; // [out * in]
  readonly groupOf: number[]; // [in]
  readonly groups: number;
  readonly scales: number[]; // [out * groups] f16 values
  readonly zeros: number[]; // [out * groups]
}

export function makeCoded(shape: {
  out: number;
  in: number;
  group: number;
  bits?: 4 | 8;
  sym: boolean;
  sorted?: boolean;
}): Coded {
  const { out, in: inputs, group, bits = 4, sym } = shape;
  const groups = Math.ceil(inputs / group);
  const groupOf = Array.from({ length: inputs }, (_, i) => Math.floor(i / group));
  if (shape.sorted)
    for (let i = inputs - 1; i > 0; i--) {
      const j = random(i + 1);
      [groupOf[i], groupOf[j]] = [groupOf[j]!, groupOf[i]!];
    }
  return {
    out,
    in: inputs,
    bits,
    codes: Array.from({ length: out * inputs }, () => random(1 << bits)),
    groupOf,
    groups,
    scales: Array.from({ length: out * groups }, () => f16ToF32(f32ToF16((1 + random(1000)) * 1e-4))),
    zeros: Array.from({ length: out * groups }, () => (sym ? 1 << (bits - 1) : random(1 << bits))),
  };
}

/** What the matrix stands for: w = scale * (code - zero). */
export function valuesOf({ out, in: inputs, codes, groupOf, groups, scales, zeros }: Coded): Float32Array {
  const values = new Float32Array(out * inputs);
  for (let o = 0; o < out; o++)
    for (let i = 0; i < inputs; i++) {
      const g = o * groups + groupOf[i]!;
      values[o * inputs + i] = scales[g]! * (codes[o * inputs + i]! - zeros[g]!);
    }
  return values;
}

/** `count` integers of `bits` into words: integer n goes to word and place `where(n)` says. */
function pack(
  words: number,
  count: number,
  bits: number,
  value: (n: number) => number,
  where: (n: number) => [number, number],
) {
  const packed = new Uint32Array(words);
  for (let n = 0; n < count; n++) {
    const [word, place] = where(n);
    packed[word] = packed[word]! + value(n) * 2 ** (bits * place);
  }
  return new Int32Array(packed.buffer);
}

export const halves = (values: number[]) => Uint16Array.from(values, f32ToF16);

export function gptq(name: string, m: Coded, zeroOffset: number): [string, SafetensorsEntry][] {
  const n = 32 / m.bits;
  const byGroup = <T>(values: T[]) =>
    Array.from({ length: m.groups * m.out }, (_, i) => values[(i % m.out) * m.groups + Math.floor(i / m.out)]!);
  const zeros = byGroup(m.zeros);
  const mask = (1 << m.bits) - 1;
  return [
    [
      `${name}.qweight`,
      {
        dtype: "I32",
        shape: [m.in / n, m.out],
        data: pack(
          (m.in / n) * m.out,
          m.in * m.out,
          m.bits,
          (k) => m.codes[k]!,
          (k) => [Math.floor((k % m.in) / n) * m.out + Math.floor(k / m.in), (k % m.in) % n],
        ),
      },
    ],
    [
      `${name}.qzeros`,
      {
        dtype: "I32",
        shape: [m.groups, m.out / n],
        data: pack(
          (m.groups * m.out) / n,
          m.groups * m.out,
          m.bits,
          (k) => (zeros[k]! - zeroOffset) & mask,
          (k) => [Math.floor(k / n), k % n],
        ),
      },
    ],
    [`${name}.scales`, { dtype: "F16", shape: [m.groups, m.out], data: halves(byGroup(m.scales)) }],
    [`${name}.g_idx`, { dtype: "I32", shape: [m.in], data: Int32Array.from(m.groupOf) }],
  ];
}

export function awq(name: string, m: Coded): [string, SafetensorsEntry][] {
  const order = [0, 2, 4, 6, 1, 3, 5, 7]; // place p of a word holds output order[p]
  const place = (o: number) => order.indexOf(o % 8);
  const words = m.out / 8;
  return [
    [
      `${name}.qweight`,
      {
        dtype: "I32",
        shape: [m.in, words],
        data: pack(
          m.in * words,
          m.in * m.out,
          4,
          (k) => m.codes[k]!,
          (k) => [(k % m.in) * words + Math.floor(Math.floor(k / m.in) / 8), place(Math.floor(k / m.in))],
        ),
      },
    ],
    [
      `${name}.qzeros`,
      {
        dtype: "I32",
        shape: [m.groups, words],
        data: pack(
          m.groups * words,
          m.groups * m.out,
          4,
          (k) => m.zeros[k]!,
          (k) => [(k % m.groups) * words + Math.floor(Math.floor(k / m.groups) / 8), place(Math.floor(k / m.groups))],
        ),
      },
    ],
    [
      `${name}.scales`,
      {
        dtype: "F16",
        shape: [m.groups, m.out],
        data: halves(
          Array.from({ length: m.groups * m.out }, (_, i) => m.scales[(i % m.out) * m.groups + Math.floor(i / m.out)]!),
        ),
      },
    ],
  ];
}

export function compressed(name: string, m: Coded, sym: boolean): [string, SafetensorsEntry][] {
  const n = 32 / m.bits;
  const words = Math.ceil(m.in / n);
  const entries: [string, SafetensorsEntry][] = [
    [
      `${name}.weight_packed`,
      {
        dtype: "I32",
        shape: [m.out, words],
        data: pack(
          m.out * words,
          m.in * m.out,
          m.bits,
          (k) => m.codes[k]!,
          (k) => [Math.floor(k / m.in) * words + Math.floor((k % m.in) / n), (k % m.in) % n],
        ),
      },
    ],
    [`${name}.weight_scale`, { dtype: "F16", shape: [m.out, m.groups], data: halves(m.scales) }],
    [`${name}.weight_shape`, { dtype: "I64", shape: [2], data: BigInt64Array.of(BigInt(m.out), BigInt(m.in)) }],
  ];
  if (!sym) {
    const rows = Math.ceil(m.out / n);
    entries.push([
      `${name}.weight_zero_point`,
      {
        dtype: "I32",
        shape: [rows, m.groups],
        data: pack(
          rows * m.groups,
          m.out * m.groups,
          m.bits,
          (k) => m.zeros[k]!,
          (k) => [Math.floor(Math.floor(k / m.groups) / n) * m.groups + (k % m.groups), Math.floor(k / m.groups) % n],
        ),
      },
    ]);
  }
  return entries;
}
