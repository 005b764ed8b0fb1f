// Hands the tensors of a checkpoint to the device. Every shape is checked against the config first: a checkpoint that does not
// match is refused with the tensor's name (tensor_missing, tensor_mismatch).

import { toFloat32 } from "../core/dequantize/dequantize.js";
import type { HostTensor, TensorSource } from "../core/tensor.js";
import type { Device, Tensor, Weight, WeightQuantization } from "../device/device.js";
import { permuteRows } from "../formats/tensor-views.js";
import { type HostLayer, hostLinear } from "./blocks/host-layers.js";
import type { Bounds, Linear } from "./blocks/linear.js";
import type { LoadContext, ModelCapacity } from "./model.js";

const PREFIXES = [
  "model.",
  "",
  "model.language_model.",
  "language_model.model.",
  "language_model.",
  "model.text_model.",
  "gpt_neox.",
  "backbone.",
];

export interface MatrixPart {
  readonly name: string;
  /** Outputs. */
  readonly rows: number;
  /** Inputs. */
  readonly cols: number;
  /** Where a row of the result lies in the checkpoint's matrix; left out: in the same place. */
  readonly rowOf?: (row: number) => number;
}

/** Of a weight that is only multiplied. */
export interface MatrixOptions {
  /** Stored [inputs, outputs]. */
  readonly transposed?: boolean;
  /** Left out: as the model is. */
  readonly quantize?: WeightQuantization;
}

/** A tensor that is made of the checkpoint's. */
export interface TensorChange {
  /** The checkpoint's shape, from the one that is wanted. */
  shapeBefore(shape: readonly number[]): readonly number[];
  made(tensor: HostTensor): HostTensor;
}

export class Loader {
  readonly device: Device;
  readonly capacity: ModelCapacity;
  readonly quantize: WeightQuantization;
  readonly #context: LoadContext;
  readonly #scratch = new Map<string, Tensor>();

  constructor(context: LoadContext) {
    this.device = context.device;
    this.capacity = context.capacity;
    this.quantize = context.quantize;
    this.#context = context;
  }

  /** The same with some tensors changed on the way, by name. Shares activations. */
  mapped(changes: ReadonlyMap<string, TensorChange>): Loader {
    const { source } = this.#context;
    const get = (name: string, shape?: readonly number[]): HostTensor => {
      const change = changes.get(name);
      return change === undefined
        ? source.get(name, shape)
        : change.made(source.get(name, shape && change.shapeBefore(shape)));
    };
    const loader = new Loader({ ...this.#context, source: { ...sourceParts(source), get } });
    for (const [key, tensor] of this.#scratch) loader.#scratch.set(key, tensor);
    return loader;
  }

  /** Pages of a part that keeps its own are in f32, though the device is faster with others. */
  get hasExactPages(): boolean {
    return this.#context.hasExactPages === true;
  }

  /** Its numbers stand one by one, not in blocks. */
  isPlain(name: string, shape: readonly number[]): boolean {
    return ["f32", "f16", "bf16"].includes(this.#context.source.get(name, shape).dtype);
  }

  has(name: string): boolean {
    return this.#context.source.has(name);
  }

  /** What stands before the decoder's names: nothing where a base model was saved, more where it is the text part of a larger one. */
  decoderPrefix(embedding = "embed_tokens.weight"): string {
    return PREFIXES.find((prefix) => this.has(`${prefix}${embedding}`)) ?? "model.";
  }

  /** A Linear whose matrix is the checkpoint's: adapters may attach to it. */
  addLinear(linear: Linear): void {
    this.#context.linears?.push(linear);
  }

  /** The head that is not the embedding table. */
  headName(name = "lm_head.weight"): string {
    return !this.has(name) && this.has(`language_model.${name}`) ? `language_model.${name}` : name;
  }

  /** The bounds of matrices; null: they have none. */
  boundsOf(parts: readonly { readonly name: string }[]): readonly Bounds[] | null {
    const all = parts.map(({ name }) => this.#context.bounds?.(name) ?? null);
    return all.includes(null) ? null : (all as Bounds[]);
  }

  host(name: string, shape: readonly number[]): HostTensor {
    const tensor = this.#context.source.get(name, shape);
    this.#context.onTensor?.(tensor.byteLength);
    return tensor;
  }

  /** Numbers for a layer that runs on the host. */
  hostValues(name: string, shape: readonly number[]): Float32Array {
    return toFloat32(this.host(name, shape));
  }

  /** `${name}.weight` and, where there is one, `${name}.bias`, on the host. */
  hostLinear(name: string, outputs: number, inputs: number, hasBias = true): HostLayer {
    const bias = hasBias ? this.hostValues(`${name}.bias`, [outputs]) : null;
    return hostLinear(this.hostValues(`${name}.weight`, [outputs, inputs]), bias, outputs);
  }

  /** Activations of every token of a step. */
  activations(cols: number): Tensor {
    return this.device.allocTensor(this.capacity.maxTokens, cols);
  }

  /** Activations that the blocks of all layers share: one tensor for each purpose and width. Valid within one block's run. */
  scratch(purpose: string, cols: number): Tensor {
    const key = `${purpose} ${cols}`;
    const tensor = this.#scratch.get(key) ?? this.activations(cols);
    this.#scratch.set(key, tensor);
    return tensor;
  }

  /** A row [1, size] in f32. `offset` is added: Gemma stores norm weights less one. */
  vector(name: string, size: number, offset = 0): Tensor {
    const values = toFloat32(this.host(name, [size]));
    return this.device.loadTensor(offset === 0 ? values : values.map((v) => v + offset), 1, size);
  }

  /** A matrix of a few rows as one row [1, rows * cols] in f32. */
  rows(name: string, rows: number, cols: number): Tensor {
    return this.device.loadTensor(toFloat32(this.host(name, [rows, cols])), 1, rows * cols);
  }

  /** One number; `shape` is [] or [1]. */
  number(name: string, shape: readonly number[]): number {
    return toFloat32(this.host(name, shape))[0]!;
  }

  /** A kernel of a depthwise convolution, stored [channels, 1, taps], as rows of taps [taps, channels]. */
  convolution(name: string, channels: number, taps: number): Tensor {
    const values = toFloat32(this.host(name, [channels, 1, taps]));
    const turned = new Float32Array(values.length);
    for (let c = 0; c < channels; c++) {
      for (let j = 0; j < taps; j++) turned[j * channels + c] = values[c * taps + j]!;
    }
    return this.device.loadTensor(turned, taps, channels);
  }

  /** -exp of a stored logarithm: how fast the heads of a recurrence forget. [1, size] */
  decayRate(name: string, size: number): Tensor {
    return this.device.loadTensor(
      toFloat32(this.host(name, [size])).map((log) => -Math.exp(log)),
      1,
      size,
    );
  }

  /** Several vectors end to end, as the bias of a stacked matrix. */
  vectors(parts: readonly { name: string; size: number; rowOf?: (row: number) => number }[], scale = 1): Tensor {
    const size = parts.reduce((sum, part) => sum + part.size, 0);
    const values = new Float32Array(size);
    let at = 0;
    for (const part of parts) {
      const stored = toFloat32(this.host(part.name, [part.size]));
      for (let i = 0; i < part.size; i++) values[at + i] = stored[part.rowOf?.(i) ?? i]! * scale;
      at += part.size;
    }
    return this.device.loadTensor(values, 1, size);
  }

  /** One matrix of all parts' rows. Stacking lets one matmul do the work of several. */
  matrix(parts: readonly MatrixPart[], options: MatrixOptions = {}): Weight {
    return this.matrixOf(
      parts.map((part) => this.#part(part, options.transposed)),
      options,
    );
  }

  /** The same of tensors that are at hand: an entry of a stack, a slice, numbers that were made. */
  matrixOf(tensors: readonly HostTensor[], options: MatrixOptions = {}): Weight {
    const { transposed = false, quantize = this.quantize } = options;
    return this.device.loadWeight(tensors, { quantize, transposed, isMatrix: true });
  }

  /** Embedding table or head: the outputs are compared with each other, so 4 bits are too few. */
  vocabulary(name: string, rows: number, cols: number, use: "table" | "head" | "both"): Weight {
    const quantize = this.quantize === "none" ? "none" : "q8";
    const tensor = this.#part({ name, rows, cols });
    return this.device.loadWeight([tensor], { quantize, isTable: use === "table", isMatrix: use === "head" });
  }

  /** An embedding table that is no head: rows are looked up and never multiplied. */
  table(name: string, rows: number, cols: number): Weight {
    return this.vocabulary(name, rows, cols, "table");
  }

  /** A table of positions or types: few rows, which are never quantised. */
  smallTable(part: MatrixPart): Weight {
    return this.device.loadWeight([this.#part(part)], { quantize: "none" });
  }

  #part({ name, rows, cols, rowOf }: MatrixPart, transposed = false): HostTensor {
    const tensor = this.host(name, transposed ? [cols, rows] : [rows, cols]);
    return rowOf === undefined ? tensor : permuteRows(tensor, name, rowOf);
  }
}

function sourceParts(source: TensorSource): Omit<TensorSource, "get"> {
  return {
    path: source.path,
    has: (name) => source.has(name),
    names: () => source.names(),
    close: () => source.close(),
  };
}
