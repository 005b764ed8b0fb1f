// Half a layer, and most of what arrangements differ in:  x += after(block(before(x))).  Pre-norm decoders have `before` only,
// OLMo 2 `after` only, Gemma both. A parallel layer adds several blocks to x, all of which read x as it was.

import type { Device, MapOp, StagedBatch, Tensor } from "../../device/device.js";
import type { Loader } from "../loader.js";
import type { Caches } from "../model.js";
import type { Block } from "./block.js";
import type { Norm } from "./norm.js";

/** One step of the residual stream. */
export interface Layer {
  run(x: Tensor, batch: StagedBatch, caches: Caches): void;
}

export class Residual implements Layer {
  readonly #device: Device;
  readonly #before: Norm | null;
  readonly #block: Block;
  readonly #after: Norm | null;
  readonly #normed: Tensor; // [T, hidden]
  readonly #branch: Tensor; // [T, hidden]
  readonly #add: MapOp;

  /** The block adds to its output exactly when `after` is null. */
  constructor(loader: Loader, hiddenSize: number, before: Norm | null, block: Block, after: Norm | null) {
    this.#device = loader.device;
    this.#add = loader.device.createMap({ kind: "add", scale: 1 });
    this.#before = before;
    this.#block = block;
    this.#after = after;
    this.#normed = loader.scratch("normed", hiddenSize);
    this.#branch = loader.scratch("branch", hiddenSize);
  }

  run(x: Tensor, batch: StagedBatch, caches: Caches): void {
    const n = batch.numTokens;
    let input = x;
    if (this.#before !== null) {
      input = this.#normed;
      this.#before.run(input, x, n);
    }
    if (this.#after === null) {
      this.#block.run(x, input, batch, caches);
      return;
    }
    this.#block.run(this.#branch, input, batch, caches);
    this.#after.run(this.#branch, this.#branch, n);
    this.#device.map(x, this.#add, x, this.#branch, n);
  }
}

/** x += f(norm(x)) + g(norm'(x)): attention and feed-forward side by side. */
export class ParallelResidual implements Layer {
  readonly #norms: readonly (Norm | null)[]; // [blocks] null: the input of the block before
  readonly #blocks: readonly Block[];
  readonly #normed: readonly Tensor[]; // [blocks] of [T, hidden]

  constructor(loader: Loader, hiddenSize: number, parts: readonly { norm: Norm | null; block: Block }[]) {
    this.#norms = parts.map((part) => part.norm);
    this.#blocks = parts.map((part) => part.block);
    const normed: Tensor[] = [];
    parts.forEach((part, i) => {
      normed.push(part.norm === null ? normed[i - 1]! : loader.scratch(`normed ${i}`, hiddenSize));
    });
    this.#normed = normed;
  }

  run(x: Tensor, batch: StagedBatch, caches: Caches): void {
    for (let i = 0; i < this.#norms.length; i++) this.#norms[i]?.run(this.#normed[i]!, x, batch.numTokens);
    for (let i = 0; i < this.#blocks.length; i++) this.#blocks[i]!.run(x, this.#normed[i]!, batch, caches);
  }
}

/** x = norm(x + block(x)), as BERT has it: the block adds to x. */
export class PostNorm implements Layer {
  readonly #block: Block;
  readonly #norm: Norm;

  constructor(block: Block, norm: Norm) {
    this.#block = block;
    this.#norm = norm;
  }

  run(x: Tensor, batch: StagedBatch, caches: Caches): void {
    this.#block.run(x, x, batch, caches);
    this.#norm.run(x, x, batch.numTokens);
  }
}
