// The gated feed-forward: down(act(gate(x)) * up(x)), gate and up in one matmul.

import type { Activation, MatmulOptions, Tensor, Weight } from "../../device/device.js";
import type { Loader } from "../loader.js";

/** A layer's feed-forward, dense or a mixture: out (+)= f(x) for n tokens. */
export interface FeedForward {
  run(out: Tensor, x: Tensor, n: number): void;
}

/** Activations that all layers of one inner size share. */
export class MlpSpace {
  readonly gateUp: Tensor; // [T, 2*inner]
  readonly gate: Tensor; // [T, inner] view
  readonly up: Tensor; // [T, inner] view
  readonly inner: Tensor; // [T, inner]

  constructor(loader: Loader, innerSize: number) {
    this.gateUp = loader.activations(2 * innerSize);
    this.gate = this.gateUp.columns(0, innerSize);
    this.up = this.gateUp.columns(innerSize, 2 * innerSize);
    this.inner = loader.activations(innerSize);
  }
}

export interface GatedMlpOptions {
  readonly hiddenSize: number;
  readonly innerSize: number;
  readonly activation: Activation;
  readonly hasBias: boolean;
  /** One tensor gate_up_proj in place of gate_proj, up_proj. */
  readonly isFused: boolean;
  readonly project: Pick<MatmulOptions, "accumulate" | "scale">;
}

export class GatedMlp implements FeedForward {
  readonly #loader: Loader;
  readonly #space: MlpSpace;
  readonly #activation: Activation;
  readonly #gateUp: Weight; // [2*inner, hidden]
  readonly #down: Weight; // [hidden, inner]
  readonly #gateUpOptions: MatmulOptions;
  readonly #downOptions: MatmulOptions;

  /** Loads gate_proj, up_proj and down_proj under `${name}.`. */
  constructor(loader: Loader, name: string, space: MlpSpace, options: GatedMlpOptions) {
    const { hiddenSize, innerSize, hasBias } = options;
    this.#loader = loader;
    this.#space = space;
    this.#activation = options.activation;
    const parts = options.isFused
      ? [{ name: `${name}.gate_up_proj`, size: 2 * innerSize }]
      : [
          { name: `${name}.gate_proj`, size: innerSize },
          { name: `${name}.up_proj`, size: innerSize },
        ];
    this.#gateUp = loader.matrix(parts.map((p) => ({ name: `${p.name}.weight`, rows: p.size, cols: hiddenSize })));
    this.#down = loader.matrix([{ name: `${name}.down_proj.weight`, rows: hiddenSize, cols: innerSize }]);
    this.#gateUpOptions = {
      bias: hasBias ? loader.vectors(parts.map((p) => ({ name: `${p.name}.bias`, size: p.size }))) : null,
    };
    this.#downOptions = {
      ...options.project,
      bias: hasBias ? loader.vector(`${name}.down_proj.bias`, hiddenSize) : null,
    };
  }

  run(out: Tensor, x: Tensor, n: number): void {
    const { device } = this.#loader;
    const { gateUp, gate, up, inner } = this.#space;
    device.matmul(gateUp, x, this.#gateUp, n, this.#gateUpOptions);
    device.gatedActivation(inner, gate, up, this.#activation, n);
    device.matmul(out, inner, this.#down, n, this.#downOptions);
  }
}
