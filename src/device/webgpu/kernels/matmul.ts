// The kernels of an encoding: products with its weights, and look-ups in them.

import type { Activation } from "../../../core/activation.js";
import { type Kernel, kernel } from "../kernel.js";
import { type BlockEncoding, type Encoding, isFloat, numbersOf } from "./encodings.js";
import { gatedMatvec, matvec, serialMatvec, VECTOR_TOKENS } from "./matvec.js";
import { blockProduct, floatProduct, type Product } from "./product.js";
import { TILE_SHAPES, type TileSize, tile } from "./tile.js";

/** out[t] = scale * row inputIds[t], or out[t] += row index[t]: of the part of the table that begins at firstRow. */
const lookup = (encoding: Encoding, adds: boolean): Kernel =>
  kernel(
    `${adds ? "addRows" : "embed"}-${encoding}`,
    `out:rw:f32 w:r:vec4u ${isFloat(encoding) ? "" : "s:r:u32 "}step:r:i32 previous:r:i32`,
    "cols outAt outStride units factorsAt rows firstRow indices scale:f",
    `${numbersOf(encoding)}
@compute @workgroup_size(128) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= p.cols) { return; }
  var index = $step[p.indices + id.y];
  if (index < 0) { index = $previous[u32(-(index + 1))]; }
  let row = u32(index) - p.firstRow;
  if (index < 0 || u32(index) < p.firstRow || row >= p.rows) { return; }
  let o = p.outAt + id.y * p.outStride + id.x;
  ${adds ? "$out[o] = $out[o] + numberAt(row, id.x);" : "$out[o] = p.scale * numberAt(row, id.x);"}
}`,
  );

export interface ProductKernels {
  /** By VECTOR_TOKENS. */
  readonly matvec: readonly Kernel[];
  readonly tile: Readonly<Record<TileSize, Kernel>>;
  /** For adapters that are a processor. */
  readonly serial: Kernel;
}

export interface EncodingKernels {
  readonly embed: Kernel;
  readonly addRows: Kernel;
  /** Of x that can be read 16 bytes at a time, or of codes. */
  readonly wide: ProductKernels;
  /** Of any x; the same for block encodings. */
  readonly narrow: ProductKernels;
}

function productKernels(product: Product): ProductKernels {
  return {
    matvec: VECTOR_TOKENS.map((n) => matvec(product, n)),
    tile: { large: tile(product, TILE_SHAPES.large), small: tile(product, TILE_SHAPES.small) },
    serial: serialMatvec(product),
  };
}

const made = new Map<Encoding, EncodingKernels>();
const madeGated = new Map<string, readonly Kernel[]>();

/** By VECTOR_TOKENS. */
export function gatedKernelsOf(encoding: BlockEncoding, activation: Activation): readonly Kernel[] {
  const name = `${encoding} ${activation}`;
  const kernels = madeGated.get(name) ?? VECTOR_TOKENS.map((n) => gatedMatvec(encoding, activation, n));
  madeGated.set(name, kernels);
  return kernels;
}

/** Made once for each encoding: programs are found by the kernel's identity. */
export function kernelsOf(encoding: Encoding): EncodingKernels {
  let kernels = made.get(encoding);
  if (kernels === undefined) {
    const wide = productKernels(isFloat(encoding) ? floatProduct(encoding, "vec4f") : blockProduct(encoding));
    const narrow = isFloat(encoding) ? productKernels(floatProduct(encoding, "f32")) : wide;
    kernels = { embed: lookup(encoding, false), addRows: lookup(encoding, true), wide, narrow };
    made.set(encoding, kernels);
  }
  return kernels;
}
