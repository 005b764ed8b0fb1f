// A checkpoint that has whatever tensor is asked for, of seeded noise: a model of any config can be loaded from it. It remembers
// what was asked, so that the same tensors can be written to a file.

import { f32ToBf16 } from "../../src/core/dequantize/small-floats.js";
import { FormatError } from "../../src/core/errors.js";
import { uniformAt } from "../../src/core/random.js";
import type { HostTensor, TensorSource } from "../../src/core/tensor.js";

export interface RandomSourceOptions {
  readonly seed: number;
  /** Names for which has() says no, when a model looks for one of several forms. */
  readonly absent?: RegExp;
  /** Around which norm weights lie: 1, or 0 where a family stores them less one. */
  readonly normMean?: number;
}

export class RandomSource implements TensorSource {
  readonly path = "random";
  readonly tensors = new Map<string, HostTensor>();
  readonly #options: RandomSourceOptions;

  constructor(options: RandomSourceOptions) {
    this.#options = options;
  }

  has(name: string): boolean {
    return /^(model|transformer)\./.test(name) && !this.#options.absent?.test(name);
  }

  get(name: string, shape?: readonly number[]): HostTensor {
    const known = this.tensors.get(name);
    if (known !== undefined) return known;
    if (shape === undefined) throw new FormatError("tensor_missing", { file: this.path, tensor: name, expected: "" });
    const bytes = this.#noise(name, shape);
    const tensor: HostTensor = { name, dtype: "bf16", shape, file: null, byteLength: bytes.length, bytes: () => bytes };
    this.tensors.set(name, tensor);
    return tensor;
  }

  names(): Iterable<string> {
    return this.tensors.keys();
  }

  close(): void {}

  /** Matrices keep the size of what goes through them; biases are small. */
  #noise(name: string, shape: readonly number[]): Uint8Array {
    const { seed, normMean = 1 } = this.#options;
    const count = shape.reduce((product, dim) => product * dim, 1);
    const isNorm = /norm|ln_/.test(name) && name.endsWith(".weight");
    const spread = shape.length > 1 ? 2.5 / Math.sqrt(shape.at(-1)!) : 0.25;
    const key = seed * 1000 + this.tensors.size;
    const codes = Uint16Array.from({ length: count }, (_, i) =>
      f32ToBf16((isNorm ? normMean : 0) + (2 * uniformAt(key, 0, i) - 1) * spread),
    );
    return new Uint8Array(codes.buffer);
  }
}

/** The source's tensors as the bytes of a safetensors file. */
export function safetensorsOf(source: RandomSource): Uint8Array {
  const header: Record<string, unknown> = {};
  const tensors = [...source.tensors.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  let offset = 0;
  for (const { name, shape, byteLength } of tensors) {
    header[name] = { dtype: "BF16", shape, data_offsets: [offset, offset + byteLength] };
    offset += byteLength;
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...tensors.map((tensor) => tensor.bytes())]);
}
