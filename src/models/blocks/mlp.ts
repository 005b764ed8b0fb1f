// Dense feed-forwards: down(act(gate(x)) * up(x)) with gate and up in one matmul, and down(act(up(x))).

import type { Activation, Device, MapOp, StagedBatch, Tensor } from "../../device/device.js";
import type { Loader } from "../loader.js";
import type { Block, Epilogue } from "./block.js";
import { type Linear, loadLinear } from "./linear.js";
import { loadNorm, type Norm, type NormStyle } from "./norm.js";

export interface MlpShape {
  readonly hiddenSize: number;
  readonly innerSize: number;
  readonly activation: Activation;
  /** Factor on the gate before its activation; left out: 1. */
  readonly gateScale?: number;
  /** Without a gate: act(scale * x) / scale, which makes CLIP's quick GELU of SiLU; left out: 1. */
  readonly innerScale?: number;
}

/** How a checkpoint stores the matrices, under `${name}.`. */
export interface MlpNaming {
  /** Names of the matrices whose rows, in order, are gate and up: two of them, or one; null: there is no gate. */
  readonly gateUp: readonly string[] | null;
  /** Where there is no gate. */
  readonly up: string;
  readonly down: string;
  readonly hasBias: boolean;
  /** Matrices are stored [inputs, outputs]. */
  readonly isTransposed: boolean;
  /** Norm of what goes into down; null: none. */
  readonly innerNorm: string | null;
}

export const GATED_MLP: MlpNaming = {
  gateUp: ["gate_proj", "up_proj"],
  up: "up_proj",
  down: "down_proj",
  hasBias: false,
  isTransposed: false,
  innerNorm: null,
};

export function loadMlp(
  loader: Loader,
  name: string,
  shape: MlpShape,
  naming: MlpNaming,
  project: Epilogue,
  style?: NormStyle,
): Block {
  const { hiddenSize, innerSize } = shape;
  const { gateUp, hasBias, isTransposed: transposed } = naming;
  const widths = gateUp === null ? [innerSize] : gateUp.length === 1 ? [2 * innerSize] : [innerSize, innerSize];
  const parts = (gateUp ?? [naming.up]).map((part, i) => ({ name: `${name}.${part}`, rows: widths[i]! }));
  const first = loadLinear(loader, parts, hiddenSize, { hasBias, transposed });
  const downPart = { name: `${name}.${naming.down}`, rows: hiddenSize };
  const down = loadLinear(loader, [downPart], innerSize, { hasBias, transposed, project });
  const norm = naming.innerNorm === null ? null : loadNorm(loader, `${name}.${naming.innerNorm}`, innerSize, style!);
  return gateUp === null ? new PlainMlp(loader, shape, first, down) : new GatedMlp(loader, shape, first, norm, down);
}

class GatedMlp implements Block {
  readonly #device: Device;
  readonly #activation: Activation;
  readonly #activate: MapOp;
  readonly #gateScale: MapOp | null;
  readonly #gateUp: Linear; // [2*inner, hidden]
  readonly #norm: Norm | null;
  readonly #down: Linear; // [hidden, inner]
  readonly #both: Tensor; // [T, 2*inner]
  readonly #gate: Tensor; // [T, inner] view
  readonly #up: Tensor; // [T, inner] view
  readonly #inner: Tensor; // [T, inner]

  constructor(
    loader: Loader,
    { innerSize, activation, gateScale = 1 }: MlpShape,
    gateUp: Linear,
    norm: Norm | null,
    down: Linear,
  ) {
    this.#device = loader.device;
    this.#activation = activation;
    this.#activate = loader.device.createMap({ kind: "gate", activation });
    this.#gateScale = gateScale === 1 ? null : loader.device.createMap({ kind: "scale", factor: gateScale });
    this.#gateUp = gateUp;
    this.#norm = norm;
    this.#down = down;
    this.#both = loader.scratch("gate and up", 2 * innerSize);
    this.#gate = this.#both.columns(0, innerSize);
    this.#up = this.#both.columns(innerSize, 2 * innerSize);
    this.#inner = loader.scratch("mlp", innerSize);
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch): void {
    const n = batch.numTokens;
    if (this.#gateScale !== null || !this.#gateUp.runGated(this.#inner, x, this.#activation, batch)) {
      this.#gateUp.run(this.#both, x, batch);
      if (this.#gateScale !== null) this.#device.map(this.#gate, this.#gateScale, this.#gate, null, n);
      this.#device.map(this.#inner, this.#activate, this.#gate, this.#up, n);
    }
    this.#norm?.run(this.#inner, this.#inner, n);
    this.#down.run(out, this.#inner, batch);
  }
}

class PlainMlp implements Block {
  readonly #device: Device;
  readonly #activate: MapOp;
  readonly #scale: MapOp | null;
  readonly #unscale: MapOp | null;
  readonly #up: Linear; // [inner, hidden]
  readonly #down: Linear; // [hidden, inner]
  readonly #inner: Tensor; // [T, inner]

  constructor(loader: Loader, { innerSize, activation, innerScale = 1 }: MlpShape, up: Linear, down: Linear) {
    this.#device = loader.device;
    const scaled = (factor: number) => (innerScale === 1 ? null : loader.device.createMap({ kind: "scale", factor }));
    this.#activate = loader.device.createMap({ kind: "activation", activation });
    this.#scale = scaled(innerScale);
    this.#unscale = scaled(1 / innerScale);
    this.#up = up;
    this.#down = down;
    this.#inner = loader.scratch("mlp", innerSize);
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch): void {
    const n = batch.numTokens;
    this.#up.run(this.#inner, x, batch);
    const inner = this.#inner;
    if (this.#scale !== null) this.#device.map(inner, this.#scale, inner, null, n);
    this.#device.map(inner, this.#activate, inner, null, n);
    if (this.#unscale !== null) this.#device.map(inner, this.#unscale, inner, null, n);
    this.#down.run(out, this.#inner, batch);
  }
}
