// out = x @ weight^T + bias, or out += scale * (...): a matrix with all that belongs to it.

import type {
  Activation,
  Device,
  LowRank,
  LowRanks,
  MapOp,
  MatmulOptions,
  StagedBatch,
  Tensor,
  Weight,
  WeightQuantization,
} from "../../device/device.js";
import type { Loader } from "../loader.js";
import type { Epilogue } from "./block.js";

/** A matrix of the checkpoint within a Linear: what an adapter attaches to, and where a shard may cut. */
export interface Site {
  /** As in the checkpoint, without `.weight`. */
  readonly name: string;
  /** Its rows are [firstRow, firstRow + rows) of the Linear's. */
  readonly firstRow: number;
  readonly rows: number;
  /** Where a row of the Linear, counted from firstRow, lies in the checkpoint's matrix; omitted: in the same place. */
  readonly rowOf?: (row: number) => number;
  /** The Linear's matrix is made of a part of the checkpoint's; omitted: it has the rows above, and all columns. */
  readonly made?: MadePart;
}

/** A part of a matrix [outputs, inputs] of the checkpoint, and what becomes of an adapter's a and b there. */
export interface MadePart {
  readonly outputs: number;
  readonly inputs: number;
  lowRankOf(a: Float32Array, b: Float32Array, rank: number): { a: Float32Array; b: Float32Array };
}

export class Linear {
  readonly weight: Weight;
  /** In the order of their rows; none where the matrix is not the checkpoint's own. */
  readonly sites: readonly Site[];
  readonly #device: Device;
  readonly #options: MatmulOptions;
  /** null: no adapter was ever here. */
  #lowRanks: LowRanks | null = null;

  constructor(
    device: Device,
    weight: Weight,
    bias: Tensor | null,
    project: Epilogue = {},
    parts: readonly LinearPart[] = [],
  ) {
    this.weight = weight;
    this.sites = sitesOf(parts);
    this.#device = device;
    this.#options = { ...project, bias };
  }

  /** Factor on the product, and so on what adapters add to it. */
  get scale(): number {
    return this.#options.scale ?? 1;
  }

  /** The adapter of a slot adds this too, from the next step on. */
  addAdapter(slot: number, lowRank: LowRank): void {
    this.#lowRanks ??= this.#device.createLowRanks!(this.sites.length);
    this.#lowRanks.add(slot, lowRank);
  }

  /** The adapter of a slot adds nothing any more. */
  dropAdapter(slot: number): void {
    this.#lowRanks?.drop(slot);
  }

  /** x and out have a row for each token of the batch; those of the head one for each of the n logit rows from `firstLogit` on. */
  run(out: Tensor, x: Tensor, batch: StagedBatch, n = batch.numTokens, firstLogit = -1): void {
    const lowRanks = this.#lowRanks;
    if (lowRanks === null || !lowRanks.isIn(batch)) this.#device.matmul(out, x, this.weight, n, this.#options);
    else this.#device.adaptedMatmul!(out, x, this.weight, lowRanks, batch, n, firstLogit, this.#options);
  }

  /** What adapters add to out, where the product itself is another op's. */
  addAdapters(out: Tensor, x: Tensor, batch: StagedBatch): void {
    const lowRanks = this.#lowRanks;
    if (lowRanks?.isIn(batch)) this.#device.adaptedMatmul!(out, x, null, lowRanks, batch, batch.numTokens, -1);
  }

  /** out = act(gate) * up of a matrix whose rows are [gate; up], where the device does that in one pass; false: it did nothing. */
  runGated(out: Tensor, x: Tensor, activation: Activation, batch: StagedBatch): boolean {
    if (this.#options.bias) return false;
    const lowRanks = this.#lowRanks;
    if (lowRanks?.isIn(batch))
      return this.#device.adaptedGatedMatmul?.(out, x, this.weight, activation, lowRanks, batch) ?? false;
    return this.#device.gatedMatmul?.(out, x, this.weight, activation, batch.numTokens) ?? false;
  }
}

/** What a matrix takes and gives is kept between these. */
export interface Bounds {
  readonly input: readonly [low: number, high: number];
  readonly output: readonly [low: number, high: number];
}

interface BoundedPiece extends Bounds {
  readonly linear: Linear;
  /** Its columns of the output. */
  readonly from: number;
  readonly to: number;
}

/** Matrices with bounds of their own (Gemma 4's towers), side by side. */
class BoundedLinear extends Linear {
  readonly #device: Device;
  readonly #pieces: readonly BoundedPiece[];
  readonly #bounded: Tensor; // [T, inputs]
  readonly #maps: readonly { readonly input: MapOp; readonly output: MapOp }[];
  #out: Tensor | null = null; // of the last run
  #parts: readonly Tensor[] = []; // its columns

  constructor(device: Device, pieces: readonly BoundedPiece[], bounded: Tensor) {
    super(device, pieces[0]!.linear.weight, null);
    this.#device = device;
    this.#pieces = pieces;
    this.#bounded = bounded;
    const clamp = ([low, high]: readonly [number, number]): MapOp => device.createMap({ kind: "clamp", low, high });
    this.#maps = pieces.map(({ input, output }) => ({ input: clamp(input), output: clamp(output) }));
  }

  override run(out: Tensor, x: Tensor, batch: StagedBatch, n = batch.numTokens): void {
    if (out !== this.#out) {
      this.#out = out;
      this.#parts = this.#pieces.map(({ from, to }) => out.columns(from, to));
    }
    for (const [i, { linear, input }] of this.#pieces.entries()) {
      const before = this.#pieces[i - 1]?.input;
      if (before === undefined || before[0] !== input[0] || before[1] !== input[1])
        this.#device.map(this.#bounded, this.#maps[i]!.input, x, null, n);
      const part = this.#parts[i]!;
      linear.run(part, this.#bounded, batch, n);
      this.#device.map(part, this.#maps[i]!.output, part, null, n);
    }
  }

  override runGated(): boolean {
    return false;
  }
}

/** A matrix of the checkpoint: `${name}.weight` and, where there is one, `${name}.bias`. */
export interface LinearPart {
  readonly name: string;
  /** Outputs. */
  readonly rows: number;
  /** Where an output lies in the checkpoint's matrix; left out: in the same place. */
  readonly rowOf?: (row: number) => number;
  readonly made?: MadePart;
}

export interface LinearOptions {
  readonly hasBias?: boolean;
  readonly project?: Epilogue;
  readonly transposed?: boolean;
  readonly quantize?: WeightQuantization;
  /** The input is multiplied by it, the bias is not. */
  readonly inputScale?: number;
}

/** One Linear of all parts' rows: stacking lets one matmul do the work of several. */
export function loadLinear(
  loader: Loader,
  parts: readonly LinearPart[],
  cols: number,
  options: LinearOptions = {},
): Linear {
  const bounds = loader.boundsOf(parts);
  if (bounds === null) return loadPlain(loader, parts, cols, options);
  const { accumulate = false, scale = 1 } = options.project ?? {};
  if (accumulate || scale !== 1) throw new Error("a bounded matrix gives its result as it is");
  let rows = 0;
  const pieces = parts.map((part, i) => {
    rows += part.rows;
    return { linear: loadPlain(loader, [part], cols, options), from: rows - part.rows, to: rows, ...bounds[i]! };
  });
  return new BoundedLinear(loader.device, pieces, loader.scratch("bounded", cols));
}

function loadPlain(loader: Loader, parts: readonly LinearPart[], cols: number, options: LinearOptions): Linear {
  const { hasBias = false, project = {}, transposed = false, quantize = loader.quantize, inputScale = 1 } = options;
  const weight = loader.matrix(
    parts.map(({ name, ...part }) => ({ ...part, name: `${name}.weight`, cols })),
    { transposed, quantize },
  );
  const bias = hasBias
    ? loader.vectors(
        parts.map(({ name, rows, ...part }) => ({ ...part, name: `${name}.bias`, size: rows })),
        1 / inputScale, // the result is scaled as a whole
      )
    : null;
  const scale = inputScale * (project.scale ?? 1);
  const linear = new Linear(loader.device, weight, bias, scale === 1 ? project : { ...project, scale }, parts);
  loader.addLinear(linear);
  return linear;
}

function sitesOf(parts: readonly LinearPart[]): Site[] {
  let end = 0;
  return parts.map((part) => {
    end += part.rows;
    return { ...part, firstRow: end - part.rows };
  });
}
