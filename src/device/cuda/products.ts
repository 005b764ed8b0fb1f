// Products of many tokens with 16-bit weights by cuBLASLt: where one of its algorithms gives the bits of our own kernels and is faster
// (product-tuner.ts). Then nothing but time depends on whether the library is there, and `split: fixed` stays what it says.
//
// It reads weights in rows, ours lie in strips: each matrix that goes its way has a copy in rows, made at its first product, as long as
// the GPU has room to spare. Gate and up go to a scratch tensor, and the activation follows in a kernel of its own.

import { type CublasLt, openCublasLt, type ProductShape } from "./cublaslt.js";
import type { Product } from "./matmul.js";
import { ProductTuner } from "./product-tuner.js";
import { type CudaRuntime, STREAM_TOKENS } from "./runtime.js";
import { type CudaTensor, type CudaWeight, ORDER } from "./tensor.js";

/** Of the memory that is free, the share that one copy or scratch tensor may take. */
const ROOM = 1 / 8;
/** What cuBLASLt takes addresses to be multiples of. */
const ALIGNED = 256;

export class CudaProducts {
  readonly #runtime: CudaRuntime;
  readonly #cublas: CublasLt;
  readonly tuner: ProductTuner;
  /** What launches name by number: the algorithms and shapes in use. */
  readonly #shapes: ProductShape[] = [];
  readonly #algorithms: Uint8Array[] = [];
  readonly #numbers = new Map<string, number>();
  #scratch = 0;
  #scratchBytes = 0;

  constructor(runtime: CudaRuntime, cublas: CublasLt) {
    this.#runtime = runtime;
    this.#cublas = cublas;
    this.tuner = new ProductTuner(runtime, cublas, this);
    runtime.queue.external = (words, at) => this.#multiply(words, at);
  }

  /** Whether the product was queued: where its algorithm wins and there is room for the weights' copy. */
  take(out: CudaTensor, x: CudaTensor, weight: CudaWeight, n: number, product: Product): boolean {
    const { rows, cols, paddedCols, format, kind } = weight;
    if (n <= STREAM_TOKENS || format.isCoded || product.bias !== 0 || product.scale !== 1) return false;
    if (cols !== paddedCols || rows % 8 !== 0 || weight.rowsAddress < 0) return false;
    const isGated = product.gate >= 0;
    const outStride = isGated ? rows : out.stride;
    if (outStride % 4 !== 0 || (!isGated && out.address % ALIGNED !== 0)) return false;
    const shape = { rows, cols, kind, outStride };
    const algorithm = this.tuner.algorithmOf(shape, n, isGated ? "gated" : product.accumulate ? "added" : "plain");
    if (algorithm === null || !this.#hasRows(weight)) return false;
    if (!isGated) {
      this.queue(shape, algorithm, n, out.address, this.#operand(x, weight, n), weight.rowsAddress, product.accumulate);
      out.storage.version++;
      return true;
    }
    const scratch = this.#scratchOf(4 * n * rows);
    if (scratch === 0) return false;
    this.queue(shape, algorithm, n, scratch, this.#operand(x, weight, n), weight.rowsAddress, false);
    this.activate(out, scratch, rows / 2, product.gate, n);
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

  /** out = act(gate) * up of [gate | up] in `from`, cols each. */
  activate(out: CudaTensor, from: number, cols: number, activation: number, n: number): void {
    const { modules, queue } = this.#runtime;
    queue.begin(modules.functionOf("rows", "gate_columns"), Math.ceil(cols / 1024), n, 1, 256, 0);
    queue.long(out.address).long(from);
    this.#runtime
      .operandOut(out, n)
      .long(out.stride)
      .long(2 * cols)
      .int(cols)
      .int(activation)
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

  #operand(x: CudaTensor, weight: CudaWeight, n: number): number {
    return this.#runtime.operandOf(x, n, weight.kind, ORDER.rows).address;
  }

  /** Room for the products of gate and up; 0: there is none. What was queued may still use the old one. */
  #scratchOf(bytes: number): number {
    if (bytes <= this.#scratchBytes) return this.#scratch;
    const { context, queue } = this.#runtime;
    if (bytes > ROOM * context.freeBytes()) return 0;
    queue.flush();
    context.synchronize();
    if (this.#scratch !== 0) context.free(this.#scratch);
    this.#scratch = context.alloc(bytes, "products of gate and up");
    this.#scratchBytes = bytes;
    return this.#scratch;
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
