// Products of many tokens with 16-bit weights by cuBLASLt: where one of its algorithms gives the bits of our own kernels and is faster
// (gemm-tuner.ts). Then nothing but time depends on whether the library is there, and `split: fixed` stays what it says.
//
// It reads weights in rows, ours lie in strips: each matrix that goes its way has a copy in rows, made at its first product, as long as
// the GPU has room to spare. Gate and up stay with our own kernel, whose epilogue is the activation: one of its own costs more than any
// algorithm gains.

import { type CublasLt, openCublasLt, type ProductShape } from "./cublaslt.js";
import { GemmTuner } from "./gemm-tuner.js";
import type { Product } from "./matmul.js";
import { type CudaRuntime, STREAM_TOKENS } from "./runtime.js";
import { type CudaTensor, type CudaWeight, ORDER } from "./tensor.js";

/** Of the memory that is free, the share that one copy may take. */
const ROOM = 1 / 8;
/** What cuBLASLt takes addresses to be multiples of. */
const ALIGNED = 256;

export class CudaProducts {
  readonly #runtime: CudaRuntime;
  readonly #cublas: CublasLt;
  readonly tuner: GemmTuner;
  /** What launches name by number: the algorithms and shapes in use. */
  readonly #shapes: ProductShape[] = [];
  readonly #algorithms: Uint8Array[] = [];
  readonly #numbers = new Map<string, number>();

  constructor(runtime: CudaRuntime, cublas: CublasLt) {
    this.#runtime = runtime;
    this.#cublas = cublas;
    this.tuner = new GemmTuner(runtime, cublas, this);
    runtime.queue.external = (words, at) => this.#multiply(words, at);
  }

  /** Whether the product was queued: where its algorithm wins and there is room for the weights' copy. */
  take(out: CudaTensor, x: CudaTensor, weight: CudaWeight, n: number, product: Product): boolean {
    const { rows, cols, paddedCols, format, kind } = weight;
    if (n <= STREAM_TOKENS || format.isCoded || product.bias !== 0 || product.scale !== 1 || product.gate >= 0)
      return false;
    if (cols !== paddedCols || rows % 8 !== 0 || weight.rowsAddress < 0) return false;
    if (out.stride % 4 !== 0 || out.address % ALIGNED !== 0) return false;
    const shape = { rows, cols, kind, outStride: out.stride };
    const algorithm = this.tuner.algorithmOf(shape, n, product.accumulate ? "added" : "plain");
    if (algorithm === null || !this.#hasRows(weight)) return false;
    const operand = this.#runtime.operandOf(x, n, kind, ORDER.rows);
    this.queue(shape, algorithm, n, out.address, operand.address, weight.rowsAddress, product.accumulate);
    out.storage.version++;
    return true;
  }

  /** Queues a product as a launch, so that it is replayed with the others of its step. */
  queue(
    shape: ProductShape,
    algorithm: Uint8Array,
    n: number,
    out: number,
    x: number,
    w: number,
    accumulate: boolean,
  ): void {
    this.#runtime.queue
      .begin(0, 1, 1, 1, 1, 0)
      .long(out)
      .long(x)
      .long(w)
      .int(this.#numberOf(shape, algorithm))
      .int(n)
      .int(accumulate ? 1 : 0)
      .end();
  }

  /** A copy of the weight in rows; false: there is no room for one. */
  #hasRows(weight: CudaWeight): boolean {
    if (weight.rowsAddress === 0) weight.rowsAddress = this.rowsOf(weight) ?? -1;
    return weight.rowsAddress > 0;
  }

  rowsOf({ address, rows, cols, paddedCols }: CudaWeight): number | null {
    const { context, modules, queue } = this.#runtime;
    const bytes = 2 * rows * cols;
    if (bytes > ROOM * context.freeBytes()) return null;
    const copy = context.alloc(bytes, `a copy in rows of a weight of ${rows} x ${cols}`);
    queue
      .begin(modules.functionOf("weights", "unpack_weight"), Math.ceil((rows * cols) / 512), 1, 1, 256, 0)
      .long(copy)
      .long(address)
      .long(rows)
      .long(cols)
      .long(paddedCols)
      .end();
    return copy;
  }

  close(): void {
    this.#cublas.close();
  }

  #numberOf(shape: ProductShape, algorithm: Uint8Array): number {
    const key = `${shape.rows} ${shape.cols} ${shape.kind} ${shape.outStride} ${algorithm}`;
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    this.#numbers.set(key, this.#algorithms.length);
    this.#shapes.push(shape);
    return this.#algorithms.push(algorithm) - 1;
  }

  #multiply(words: Int32Array, at: number): void {
    const address = (i: number): number => (words[at + i]! >>> 0) + words[at + i + 1]! * 0x1_0000_0000;
    const number = words[at + 6]!;
    const shape = this.#shapes[number]!;
    const isAdded = words[at + 8] === 1;
    this.#cublas.multiply(
      shape,
      words[at + 7]!,
      this.#algorithms[number]!,
      address(0),
      address(2),
      address(4),
      isAdded,
    );
  }
}

/** null where the library is not found. */
export function openProducts(runtime: CudaRuntime): CudaProducts | null {
  const cublas = openCublasLt(runtime.context);
  return cublas === null ? null : new CudaProducts(runtime, cublas);
}
