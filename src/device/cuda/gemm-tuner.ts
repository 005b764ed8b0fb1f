// Which of cuBLASLt's algorithms serves a product, if any: one whose results have the bits of our own kernels, and that is faster.
// Both are tried once for each matrix shape, number type and power of two of tokens, on numbers of widely spread exponents; what was found
// is kept in the user's cache folder, for this GPU, driver, library and kernels. It takes tenths of a second each, so it is done when
// somebody asks for it (`pagoda warmup`) and never in traffic: what was not tried is our own kernel's.

import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { HostTensor } from "../../core/tensor.js";
import { KIND, type Kind } from "./codes.js";
import type { CublasLt, ProductShape } from "./cublaslt.js";
import type { CudaProducts } from "./gemm.js";
import { tiles } from "./matmul.js";
import { cacheFolder } from "./modules.js";
import { type CudaRuntime, STREAM_TOKENS } from "./runtime.js";
import { imageName, sourceText } from "./sources.js";
import { CudaTensor, type CudaWeight, ORDER } from "./tensor.js";
import { WeightLoader } from "./weights.js";

/** Written; added to what is there. */
export type ProductUse = "plain" | "added";

/** What it must at least win: in a step its kernels do not begin before the ones ahead have ended, and other readers of its input may want another order. */
const MOST_TIME = 0.9;
/** Tokens whose results are compared, spread over all. */
const COMPARED = 32;
const RUNS = 8; // in a timing: enough to be a graph

export class GemmTuner {
  /** Whether products of a new kind are tried. */
  isTrying = false;
  readonly #runtime: CudaRuntime;
  readonly #cublas: CublasLt;
  readonly #products: CudaProducts;
  readonly #file: string;
  readonly #known: Map<string, Uint8Array | null>;
  #isAnnounced = false;

  constructor(runtime: CudaRuntime, cublas: CublasLt, products: CudaProducts) {
    this.#runtime = runtime;
    this.#cublas = cublas;
    this.#products = products;
    const { name, driverVersion, arch } = runtime.context.facts;
    const kernels = imageName("matmul-tile", sourceText("matmul-tile"), arch);
    const gpu = name.replace(/[^\w]+/g, "-");
    this.#file = join(cacheFolder(), `products-${gpu}-${driverVersion}-${cublas.version}-${kernels}.json`);
    this.#known = read(this.#file);
  }

  /** null: our own kernel. */
  algorithmOf(shape: ProductShape, n: number, use: ProductUse): Uint8Array | null {
    const tokens = 2 ** Math.ceil(Math.log2(n));
    const key = `${shape.rows}x${shape.cols} ${shape.kind === KIND.f16 ? "f16" : "bf16"} ${use} ${tokens}`;
    let algorithm = this.#known.get(key);
    if (algorithm === undefined) {
      if (!this.isTrying) return null;
      algorithm = this.#tune({ ...shape, outStride: shape.rows }, tokens, use);
      this.#known.set(key, algorithm);
      this.#keep();
    }
    return algorithm;
  }

  #tune(shape: ProductShape, n: number, use: ProductUse): Uint8Array | null {
    const { rows, cols } = shape;
    const { context, queue } = this.#runtime;
    const bytes = 4 * rows * cols + 6 * n * cols + 4 * n * rows;
    if (bytes > context.freeBytes() / 2) return null;
    if (!this.#isAnnounced) process.stderr.write(`pagoda: trying cuBLASLt's algorithms; kept in ${this.#file}\n`);
    this.#isAnnounced = true;
    queue.flush();
    const { isHeld } = queue;
    queue.isHeld = false;
    const trial = new Trial(this.#runtime, this.#products, shape, n);
    try {
      return this.#best(trial, use);
    } finally {
      trial.free();
      queue.isHeld = isHeld;
    }
  }

  #best(trial: Trial, use: ProductUse): Uint8Array | null {
    let most = MOST_TIME * trial.measureOurs(use);
    let best: Uint8Array | null = null;
    for (const algorithm of this.#cublas.choices(trial.shape, trial.n)) {
      if (!trial.isEqual(algorithm)) continue;
      const ms = trial.measure(algorithm, use);
      if (ms > most) continue;
      most = ms;
      best = algorithm;
    }
    return best;
  }

  #keep(): void {
    const all = new Map([...read(this.#file), ...this.#known]);
    const entries = [...all].map(([key, bytes]) => [key, bytes === null ? "" : Buffer.from(bytes).toString("base64")]);
    try {
      mkdirSync(cacheFolder(), { recursive: true });
      writeFileSync(`${this.#file}.${process.pid}`, JSON.stringify(Object.fromEntries(entries)));
      renameSync(`${this.#file}.${process.pid}`, this.#file);
    } catch (error) {
      process.stderr.write(`pagoda: ${this.#file} cannot be kept: ${(error as Error).message}\n`);
    }
  }
}

function read(file: string): Map<string, Uint8Array | null> {
  if (!existsSync(file)) return new Map();
  try {
    const all = Object.entries(JSON.parse(readFileSync(file, "utf8")) as Record<string, string>);
    return new Map(all.map(([key, text]) => [key, text === "" ? null : new Uint8Array(Buffer.from(text, "base64"))]));
  } catch {
    return new Map(); // cut off in the middle: it is made anew
  }
}

/** A product of random numbers, by our kernels and by others. */
class Trial {
  readonly shape: ProductShape;
  readonly n: number;
  readonly #runtime: CudaRuntime;
  readonly #products: CudaProducts;
  readonly #weight: CudaWeight;
  readonly #rows: number; // the weight in rows
  readonly #x: CudaTensor;
  readonly #out: CudaTensor; // [n, rows]
  /** Numbers of tokens that are tried, and our results of them: written, and added once more. */
  readonly #expected: { readonly tokens: number; readonly written: Uint32Array; readonly added: Uint32Array }[];

  constructor(runtime: CudaRuntime, products: CudaProducts, shape: ProductShape, n: number) {
    this.#runtime = runtime;
    this.#products = products;
    this.shape = shape;
    this.n = n;
    const { rows, cols, kind } = shape;
    const bits = randomBits(rows * cols, kind);
    const bytes = new Uint8Array(bits.buffer);
    const dtype = kind === KIND.f16 ? "f16" : "bf16";
    const tensor: HostTensor = {
      name: "random numbers",
      dtype,
      shape: [rows, cols],
      file: null,
      byteLength: bytes.length,
      bytes: () => bytes,
    };
    const loader = new WeightLoader(runtime);
    this.#weight = loader.load([tensor], {});
    loader.release();
    this.#rows = products.rowsOf(this.#weight) ?? 0;
    this.#x = this.#tensor(cols);
    runtime.upload(this.#x.address, new Uint8Array(randomFloats(n * cols).buffer));
    this.#out = this.#tensor(rows);
    const fewer = Math.max(STREAM_TOKENS + 1, n - 13);
    this.#expected = [n, fewer].map((tokens) => {
      this.#ours(tokens, false);
      const written = this.#sample(tokens);
      this.#ours(tokens, true);
      return { tokens, written, added: this.#sample(tokens) };
    });
  }

  measureOurs(use: ProductUse): number {
    const operand = this.#runtime.operandOf(this.#x, this.n, this.shape.kind);
    const product = { bias: 0, scale: 1, accumulate: use === "added", gate: -1 };
    return this.#time(() => tiles(this.#runtime, this.#out, operand, this.#weight, this.n, product));
  }

  measure(algorithm: Uint8Array, use: ProductUse): number {
    const { address } = this.#runtime.operandOf(this.#x, this.n, this.shape.kind, ORDER.rows);
    return this.#time(() =>
      this.#products.queue(this.shape, algorithm, this.n, this.#out.address, address, this.#rows, use === "added"),
    );
  }

  /** Whether an algorithm gives our bits, written and added; an algorithm that fails does not. */
  isEqual(algorithm: Uint8Array): boolean {
    if (this.#rows === 0) return false;
    return this.#expected.every(({ tokens, written, added }) => {
      const { address } = this.#runtime.operandOf(this.#x, tokens, this.shape.kind, ORDER.rows);
      const isSame = (expected: Uint32Array, accumulate: boolean): boolean => {
        this.#products.queue(this.shape, algorithm, tokens, this.#out.address, address, this.#rows, accumulate);
        const found = this.#sample(tokens);
        return found.every((bits, i) => bits === expected[i]);
      };
      try {
        return isSame(written, false) && isSame(added, true);
      } catch {
        return false;
      }
    });
  }

  free(): void {
    const { context } = this.#runtime;
    context.synchronize();
    const tensors = [this.#x, this.#out];
    const operands = tensors.flatMap(({ operand }) => (operand === null ? [] : [operand.address]));
    for (const address of [this.#weight.address, this.#rows, ...tensors.map((tensor) => tensor.address), ...operands]) {
      context.free(address);
    }
  }

  #ours(tokens: number, accumulate: boolean): void {
    const operand = this.#runtime.operandOf(this.#x, tokens, this.shape.kind);
    const product = { bias: 0, scale: 1, accumulate, gate: -1 };
    tiles(this.#runtime, this.#out, operand, this.#weight, tokens, product);
  }

  /** Milliseconds of RUNS products: the lists become a graph the second time. */
  #time(run: () => void): number {
    const all = () => {
      for (let i = 0; i < RUNS; i++) run();
    };
    const times = Array.from({ length: 4 }, () => this.#runtime.time(all));
    return Math.min(...times.slice(2));
  }

  /** Results of some of the tokens, as bits. */
  #sample(tokens: number): Uint32Array {
    const { rows } = this.shape;
    const count = Math.min(COMPARED, tokens);
    const bits = new Uint32Array(count * rows);
    for (let i = 0; i < count; i++) {
      const token = Math.floor((i * (tokens - 1)) / (count - 1));
      const row = new Uint8Array(bits.buffer, 4 * i * rows, 4 * rows);
      this.#runtime.download(row, this.#out.address + 4 * token * rows);
    }
    return bits;
  }

  #tensor(cols: number): CudaTensor {
    const address = this.#runtime.context.alloc(4 * this.n * cols, `a trial of ${this.n} x ${cols} numbers`);
    return new CudaTensor(address, this.n, cols, cols, { version: 0 });
  }
}

/** Mantissas and signs by chance, exponents of 24 (f16: 16) powers of two; a drawn block of odd length, repeated. */
function randomBits(count: number, kind: Kind): Uint16Array {
  const [bias, powers, width] = kind === KIND.f16 ? [15, 16, 10] : [127, 24, 7];
  const bits = new Uint16Array(count);
  const drawn = Math.min(count, (1 << 18) - 3);
  let h = count | 0;
  for (let i = 0; i < drawn; i++) {
    h = (Math.imul(h, 1664525) + 1013904223) | 0;
    const exponent = bias - powers / 2 + ((h >>> 9) % powers);
    bits[i] = ((h >>> 16) & 0x8000) | (exponent << width) | ((h >>> 20) & ((1 << width) - 1));
  }
  for (let at = drawn; at < count; at *= 2) bits.copyWithin(at, 0, Math.min(at, count - at));
  return bits;
}

function randomFloats(count: number): Float32Array {
  const bits = randomBits(count, KIND.f16);
  const floats = new Float32Array(count);
  const drawn = Math.min(count, (1 << 18) - 3);
  for (let i = 0; i < drawn; i++) floats[i] = ((bits[i]! & 0x3ff) / 1024 - 0.5) * 2 ** (((bits[i]! >>> 10) & 31) - 15);
  for (let at = drawn; at < count; at *= 2) floats.copyWithin(at, 0, Math.min(at, count - at));
  return floats;
}
