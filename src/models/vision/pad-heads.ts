// Heads with zeros behind them, so that kernels made for other sizes serve them: towers have heads of 72, 80 or 88 numbers. Zeros change neither
// scores nor sums; norms over a head count them, which their weights and epsilon make up for.

import { toFloat32 } from "../../core/dequantize/dequantize.js";
import type { HostTensor } from "../../core/tensor.js";
import type { Device } from "../../device/device.js";
import { madeTensor } from "../../formats/tensor-views.js";
import type { TensorChange } from "../loader.js";

/** Sizes with kernels of their own where pages have 16 bits. */
const SIZES = [16, 32, 48, 64, 80, 96, 128];

const COLUMNS = 64;

/** The size that heads of `headDim` have on a device. */
export function paddedHeadDim(device: Device, headDim: number): number {
  if (!device.info.hasOwnMemory) return headDim;
  return SIZES.find((size) => size >= headDim) ?? Math.ceil(headDim / 16) * 16;
}

/** Columns that a device's matrices have in any case. */
export function paddedCols({ info }: Device, cols: number): number {
  return info.hasOwnMemory ? Math.ceil(cols / COLUMNS) * COLUMNS : cols;
}

export class HeadPadding {
  readonly #from: number;
  readonly #to: number;

  constructor(from: number, to: number) {
    this.#from = from;
    this.#to = to;
  }

  /** Of a norm over padded heads: a mean over more numbers is smaller. */
  get share(): number {
    return this.#from / this.#to;
  }

  /** Rows of matrices, or numbers of vectors, that make heads. */
  readonly outputs: TensorChange = {
    shapeBefore: ([rows, ...rest]) => [this.#shrunk(rows!), ...rest],
    made: (tensor) => this.#outputs(tensor),
  };

  /** Columns of a matrix that reads heads, in f32 where its encoding has blocks. */
  readonly inputs: TensorChange = {
    shapeBefore: ([rows, cols]) => [rows!, this.#shrunk(cols!)],
    made: (tensor) => this.#inputs(tensor),
  };

  /** Weights of a norm over each head, or over all heads. */
  readonly norm: TensorChange = {
    shapeBefore: ([count]) => [this.#shrunk(count!)],
    made: (tensor) => this.#norm(tensor),
  };

  #outputs(tensor: HostTensor): HostTensor {
    const rows = tensor.shape[0]!;
    const rowBytes = tensor.byteLength / rows;
    const shape = [this.#grown(rows), ...tensor.shape.slice(1)];
    return madeTensor(tensor.name, tensor.dtype, shape, () => this.#spread(tensor.bytes(), rowBytes));
  }

  #inputs(tensor: HostTensor): HostTensor {
    const [rows, cols] = tensor.shape as [number, number];
    const elementBytes = tensor.byteLength / (rows * cols);
    const isPlain = ["f32", "f16", "bf16"].includes(tensor.dtype);
    const dtype = isPlain ? tensor.dtype : "f32";
    return madeTensor(tensor.name, dtype, [rows, this.#grown(cols)], () =>
      isPlain
        ? this.#spread(tensor.bytes(), elementBytes)
        : this.#spread(new Uint8Array(toFloat32(tensor).buffer), Float32Array.BYTES_PER_ELEMENT),
    );
  }

  #norm(tensor: HostTensor): HostTensor {
    const scale = Math.sqrt(this.share);
    const scaled = madeTensor(
      tensor.name,
      "f32",
      tensor.shape,
      () => new Uint8Array(toFloat32(tensor).map((weight) => weight * scale).buffer),
    );
    return this.#outputs(scaled);
  }

  #shrunk(count: number): number {
    return (count / this.#to) * this.#from;
  }

  #grown(count: number): number {
    return (count / this.#from) * this.#to;
  }

  /** Runs of #from units become runs of #to. */
  #spread(bytes: Uint8Array, unitBytes: number): Uint8Array {
    const [from, to] = [this.#from * unitBytes, this.#to * unitBytes];
    const out = new Uint8Array((bytes.length / from) * to);
    for (let i = 0; i * from < bytes.length; i++) out.set(bytes.subarray(i * from, (i + 1) * from), i * to);
    return out;
  }
}
