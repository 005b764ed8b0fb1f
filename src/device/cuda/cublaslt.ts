// cuBLASLt, where it is found: out[n, rows] = x[n, cols] . w[rows, cols]^T, 16-bit x and w, f32 out, every matrix in rows. Its own terms are
// columns: w is cols x rows and transposed, x cols x n, out rows x n.

import { CUBLASLT, type CublasLtFunctions, checkProduct, openLibrary } from "./abi.js";
import { KIND, type Kind } from "./codes.js";
import type { CudaContext } from "./context.js";

const F32 = 0;
const F16 = 2;
const BF16 = 14;
const COMPUTE_F32 = 68;
const WORKSPACE_BYTES = 32 * 2 ** 20;
const CHOICE_BYTES = 96; // a cublasLtMatmulHeuristicResult_t, which begins with the algorithm
const ALGORITHM_BYTES = 64;
const CHOICES = 8;
const ATTRIBUTE = { transposed: 3, workspace: 1, reductions: 3, columns: 3 };
/** Parts of K in a workspace are added in order; those added in place, in whichever order they come, are left out. */
const ORDERED_REDUCTIONS = 2 | 4;

/** A product of a matrix; `outStride` numbers from one token's results to the next. */
export interface ProductShape {
  readonly rows: number;
  readonly cols: number;
  readonly kind: Kind;
  readonly outStride: number;
}

export class CublasLt {
  readonly version: number;
  readonly #functions: CublasLtFunctions;
  readonly #context: CudaContext;
  readonly #handle: number;
  readonly #product: number;
  readonly #preferences: readonly number[];
  readonly #workspace: number;
  readonly #layouts = new Map<string, readonly [w: number, x: number, out: number]>();
  readonly #out = new BigUint64Array(1);
  readonly #one = new Float32Array([1]);
  readonly #beta = new Float32Array(1);

  constructor(functions: CublasLtFunctions, context: CudaContext) {
    this.#functions = functions;
    this.#context = context;
    this.version = functions.version();
    this.#handle = this.#made("create", functions.create(this.#out));
    this.#product = this.#made("productCreate", functions.productCreate(this.#out, COMPUTE_F32, F32));
    this.#made("productSet", functions.productSet(this.#product, ATTRIBUTE.transposed, new Int32Array([1]), 4));
    this.#preferences = [0, ORDERED_REDUCTIONS].map((reductions) => {
      const preference = this.#made("preferenceCreate", functions.preferenceCreate(this.#out));
      const bytes = new BigUint64Array([BigInt(WORKSPACE_BYTES)]);
      this.#made("preferenceSet", functions.preferenceSet(preference, ATTRIBUTE.workspace, bytes, 8));
      const schemes = new Uint32Array([reductions]);
      this.#made("preferenceSet", functions.preferenceSet(preference, ATTRIBUTE.reductions, schemes, 4));
      return preference;
    });
    this.#workspace = context.alloc(WORKSPACE_BYTES, "cuBLASLt's workspace");
  }

  /** The algorithms it would choose for n tokens, those that sum K in one piece first. */
  choices(shape: ProductShape, n: number): Uint8Array[] {
    const [w, x, out] = this.#layoutsOf(shape, n);
    const found = new Map<string, Uint8Array>();
    for (const preference of this.#preferences) {
      const results = new Uint8Array(CHOICE_BYTES * CHOICES);
      const count = new Int32Array(1);
      const status = this.#functions.choose(
        this.#handle,
        this.#product,
        w,
        x,
        out,
        out,
        preference,
        CHOICES,
        results,
        count,
      );
      for (let i = 0; status === 0 && i < count[0]!; i++) {
        const algorithm = results.slice(CHOICE_BYTES * i, CHOICE_BYTES * i + ALGORITHM_BYTES);
        found.set(algorithm.toString(), algorithm);
      }
    }
    return [...found.values()];
  }

  multiply(
    shape: ProductShape,
    n: number,
    algorithm: Uint8Array,
    out: number,
    x: number,
    w: number,
    accumulate: boolean,
  ): void {
    const [wLayout, xLayout, outLayout] = this.#layoutsOf(shape, n);
    this.#beta[0] = accumulate ? 1 : 0;
    const status = this.#functions.multiply(
      this.#handle,
      this.#product,
      this.#one,
      w,
      wLayout,
      x,
      xLayout,
      this.#beta,
      out,
      outLayout,
      out,
      outLayout,
      algorithm,
      this.#workspace,
      WORKSPACE_BYTES,
      this.#context.stream,
    );
    checkProduct(status, "multiply", shape.rows, shape.cols, n);
  }

  close(): void {
    this.#functions.destroy(this.#handle);
  }

  #layoutsOf({ rows, cols, kind, outStride }: ProductShape, n: number): readonly [number, number, number] {
    const key = `${rows} ${cols} ${kind} ${outStride}`;
    let layouts = this.#layouts.get(key);
    if (layouts === undefined) {
      const type = kind === KIND.f16 ? F16 : BF16;
      const layout = (of: number, height: number, width: number, stride: number): number =>
        this.#made("layoutCreate", this.#functions.layoutCreate(this.#out, of, height, width, stride));
      layouts = [layout(type, cols, rows, cols), layout(type, cols, n, cols), layout(F32, rows, n, outStride)];
      this.#layouts.set(key, layouts);
    }
    const width = this.#out;
    width[0] = BigInt(n);
    for (const layout of [layouts[1], layouts[2]]) {
      checkProduct(this.#functions.layoutSet(layout, ATTRIBUTE.columns, width, 8), "layoutSet", layout, n);
    }
    return layouts;
  }

  #made(name: keyof typeof CUBLASLT, status: number): number {
    checkProduct(status, name);
    return Number(this.#out[0]);
  }
}

/**
 * PAGODA_CUBLASLT: a path, or "on" for where the loader looks; else none, since whole steps were no faster with it (docs/internals/cuda.md). Asked for
 * and not found: a line says so, and our own kernels serve.
 */
export function openCublasLt(context: CudaContext): CublasLt | null {
  const named = process.env.PAGODA_CUBLASLT;
  if (named === undefined || named === "off") return null;
  const versions = ["13", "12"];
  const usual = [
    ...versions.map((version) => `libcublasLt.so.${version}`),
    ...versions.map((version) => `/usr/local/cuda/lib64/libcublasLt.so.${version}`),
    ...versions.map((version) => `cublasLt64_${version}.dll`),
  ];
  try {
    return new CublasLt(openLibrary(named === "on" ? usual : [named], CUBLASLT), context);
  } catch (error) {
    process.stderr.write(
      `pagoda: PAGODA_CUBLASLT is ${named}, but cuBLASLt cannot be used: ${(error as Error).message}\n`,
    );
    return null;
  }
}
