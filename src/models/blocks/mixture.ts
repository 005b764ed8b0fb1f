// A mixture of experts as a layer's feed-forward: router, chosen experts, and the experts that every token shares, where there are.

import type { ExpertWeights, MatmulOptions, RouterSpec, Tensor, Weight } from "../../device/device.js";
import type { Loader } from "../loader.js";
import type { FeedForward } from "./gated-mlp.js";

/** Activations that all layers share. */
export class MixtureSpace {
  readonly logits: Tensor; // [T, E]
  readonly out: Tensor; // [T, hidden]

  constructor(loader: Loader, numExperts: number, hiddenSize: number) {
    this.logits = loader.activations(numExperts);
    this.out = loader.activations(hiddenSize);
  }
}

export interface MixtureWeights {
  readonly router: Weight; // [E, hidden]
  readonly routerBias: Tensor | null;
  readonly experts: ExpertWeights;
  /** Adds to the same output. */
  readonly shared: FeedForward | null;
}

export class MixtureOfExperts implements FeedForward {
  readonly #loader: Loader;
  readonly #space: MixtureSpace;
  readonly #weights: MixtureWeights;
  readonly #router: RouterSpec;
  readonly #routerOptions: MatmulOptions;
  readonly #scale: number;

  constructor(loader: Loader, space: MixtureSpace, weights: MixtureWeights, router: RouterSpec, scale = 1) {
    this.#loader = loader;
    this.#space = space;
    this.#weights = weights;
    this.#router = router;
    this.#routerOptions = { bias: weights.routerBias };
    this.#scale = scale;
  }

  /** out += scale * mixture of x. */
  run(out: Tensor, x: Tensor, n: number): void {
    const { device } = this.#loader;
    const { router, experts, shared } = this.#weights;
    device.matmul(this.#space.logits, x, router, n, this.#routerOptions);
    device.mixtureOfExperts(this.#space.out, x, this.#space.logits, this.#router, experts, n);
    device.add(out, out, this.#space.out, this.#scale, n);
    if (shared !== null) shared.run(out, x, n);
  }
}

/** The router is small and its choices are discrete: it is never quantised. */
export function loadRouter(loader: Loader, name: string, numExperts: number, hiddenSize: number): Weight {
  return loader.matrix([{ name, rows: numExperts, cols: hiddenSize }], { quantize: "none" });
}

/** Experts stored one by one: `${name}.${e}.` and the names of the three matrices, without biases. */
export function loadExperts(
  loader: Loader,
  name: string,
  matrices: { readonly gate: string; readonly up: string; readonly down: string },
  shape: { readonly numExperts: number; readonly hiddenSize: number; readonly inner: number },
  activation: ExpertWeights["activation"],
): ExpertWeights {
  const { numExperts, hiddenSize, inner } = shape;
  const ids = Array.from({ length: numExperts }, (_, e) => e);
  return {
    gateUp: ids.map((e) =>
      loader.matrix([
        { name: `${name}.${e}.${matrices.gate}.weight`, rows: inner, cols: hiddenSize },
        { name: `${name}.${e}.${matrices.up}.weight`, rows: inner, cols: hiddenSize },
      ]),
    ),
    down: ids.map((e) =>
      loader.matrix([{ name: `${name}.${e}.${matrices.down}.weight`, rows: hiddenSize, cols: inner }]),
    ),
    gateUpBias: null,
    downBias: null,
    inner,
    activation,
  };
}
