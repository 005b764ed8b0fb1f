// Writes GGUF files for tests: what a converter would write, and, by its parts, what it never would.

import { BLOCK_OF, type TensorDtype } from "../../src/core/tensor.js";

/** Plain numbers are written as u32, or f32 when fractional; arrays as strings, bool, i32 or f32; bytes as the type given. */
export type GgufValue =
  | number
  | string
  | boolean
  | readonly string[]
  | readonly number[]
  | readonly boolean[]
  | { readonly type: number; readonly bytes: Uint8Array };

export interface GgufTensor {
  readonly name: string;
  readonly dtype: TensorDtype;
  /** Outermost first, as everywhere in Pagoda. */
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
  /** Instead of the next free place. */
  readonly offset?: number;
}

/** By ggml.h: written down a second time, so that the reader is held against it. */
export const GGML_TYPE: Partial<Record<TensorDtype, number>> = {
  f32: 0,
  f16: 1,
  q4_0: 2,
  q4_1: 3,
  q5_0: 6,
  q5_1: 7,
  q8_0: 8,
  q2_k: 10,
  q3_k: 11,
  q4_k: 12,
  q5_k: 13,
  q6_k: 14,
  iq2_xxs: 16,
  iq2_xs: 17,
  iq3_xxs: 18,
  iq1_s: 19,
  iq3_s: 21,
  iq2_s: 22,
  iq1_m: 29,
  tq1_0: 34,
  tq2_0: 35,
  nvfp4: 40,
  q1_0: 41,
  q2_0: 42,
  iq4_nl: 20,
  iq4_xs: 23,
  i8: 24,
  i32: 26,
  i64: 27,
  bf16: 30,
  mxfp4: 39,
};

export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

export function u64(value: number | bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

export function f32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

export function text(value: string): Buffer {
  const bytes = Buffer.from(value, "utf8");
  return Buffer.concat([u64(bytes.length), bytes]);
}

/** Type number and bytes of a metadata value. */
export function typed(value: GgufValue): Buffer {
  if (typeof value === "string") return Buffer.concat([u32(8), text(value)]);
  if (typeof value === "boolean") return Buffer.concat([u32(7), Buffer.of(value ? 1 : 0)]);
  if (typeof value === "number") {
    return Number.isInteger(value) ? Buffer.concat([u32(4), u32(value)]) : Buffer.concat([u32(6), f32(value)]);
  }
  if ("bytes" in value) return Buffer.concat([u32(value.type), value.bytes]);
  if (typeof value[0] === "boolean")
    return Buffer.concat([u32(9), u32(7), u64(value.length), Buffer.from(value.map(Number))]);
  const isText = typeof value[0] === "string";
  const isWhole = value.every((v) => Number.isInteger(v));
  const items = value.map((v) => {
    if (typeof v === "string") return text(v);
    if (!isWhole) return f32(Number(v));
    const bytes = Buffer.alloc(4);
    bytes.writeInt32LE(Number(v));
    return bytes;
  });
  return Buffer.concat([u32(9), u32(isText ? 8 : isWhole ? 5 : 6), u64(value.length), ...items]);
}

export function writeGguf(
  metadata: Readonly<Record<string, GgufValue>>,
  tensors: readonly GgufTensor[],
  options: { version?: number; alignment?: number } = {},
): Buffer {
  const alignment = options.alignment ?? 32;
  const header: Buffer[] = [Buffer.from("GGUF"), u32(options.version ?? 3), u64(tensors.length)];
  header.push(u64(Object.keys(metadata).length));
  for (const [key, value] of Object.entries(metadata)) header.push(text(key), typed(value));
  let next = 0;
  const places: number[] = [];
  for (const { name, dtype, shape, bytes, offset } of tensors) {
    const elements = shape.reduce((product, dim) => product * dim, 1);
    const [blockElements, blockBytes] = BLOCK_OF[dtype];
    if ((elements / blockElements) * blockBytes !== bytes.length) throw new Error(`${name}: wrong number of bytes`);
    const place = offset ?? next;
    places.push(place);
    next = Math.ceil((place + bytes.length) / alignment) * alignment;
    header.push(text(name), u32(shape.length), ...[...shape].reverse().map(u64), u32(GGML_TYPE[dtype]!), u64(place));
  }
  const head = Buffer.concat(header);
  const dataStart = Math.ceil(head.length / alignment) * alignment;
  const end = tensors.reduce((max, { bytes }, i) => Math.max(max, places[i]! + bytes.length), 0);
  const file = Buffer.alloc(tensors.length === 0 ? head.length : dataStart + end);
  head.copy(file);
  tensors.forEach(({ bytes }, i) => {
    file.set(bytes, dataStart + places[i]!);
  });
  return file;
}
