// A mixture of experts as a layer's feed-forward: router, chosen experts, and the experts that every token shares, where there are.

import type { ExpertWeights, MatmulOptions, RouterSpec, Tensor, Weight } from "../../device/device.js";
import type { ConfigReader } from "../config-reader.js";
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

export interface MixtureConfig {
  readonly hiddenSize: number;
  readonly numExperts: number; // E
  readonly topK: number;
  /** Inner size of one expert. */
  readonly expertSize: number;
  readonly activation: ExpertWeights["activation"];
}

/** Names below the layer's prefix; the matrices are `${experts}.${e}.${gate}.weight` and so on. */
export interface MixtureNames {
  readonly router: string;
  readonly experts: string;
  readonly gate: string;
  readonly up: string;
  readonly down: string;
}

/** The names that most families use. */
export const MLP_EXPERTS: MixtureNames = {
  router: "mlp.gate.weight",
  experts: "mlp.experts",
  gate: "gate_proj",
  up: "up_proj",
  down: "down_proj",
};

/** Reads num_experts_per_tok and checks it against the number of experts. */
export function readTopK(c: ConfigReader, numExperts: number, absent?: number): number {
  const topK = c.int("num_experts_per_tok", absent);
  c.check(topK <= numExperts, "num_experts_per_tok", `at most ${numExperts}`);
  return topK;
}

/** Softmax over all experts, then the best k: what a router is unless a family says otherwise. */
export function softmaxRouter(config: MixtureConfig, normalize: boolean): RouterSpec {
  const { numExperts, topK } = config;
  return { numExperts, topK, score: "softmax", normalize, scale: 1, bias: null, numGroups: 1, topkGroup: 1 };
}

/** The router is small and its choices are discrete: it is never quantised. */
export function loadRouter(loader: Loader, name: string, config: MixtureConfig): Weight {
  return loader.matrix([{ name, rows: config.numExperts, cols: config.hiddenSize }], { quantize: "none" });
}

/** Experts stored one by one, without biases. */
export function loadExperts(loader: Loader, layer: string, names: MixtureNames, config: MixtureConfig): ExpertWeights {
  const { numExperts, hiddenSize, expertSize, activation } = config;
  const ids = Array.from({ length: numExperts }, (_, e) => e);
  const nameOf = (e: number, matrix: string): string => `${layer}.${names.experts}.${e}.${matrix}.weight`;
  return {
    gateUp: ids.map((e) =>
      loader.matrix([
        { name: nameOf(e, names.gate), rows: expertSize, cols: hiddenSize },
        { name: nameOf(e, names.up), rows: expertSize, cols: hiddenSize },
      ]),
    ),
    down: ids.map((e) => loader.matrix([{ name: nameOf(e, names.down), rows: hiddenSize, cols: expertSize }])),
    gateUpBias: null,
    downBias: null,
    inner: expertSize,
    activation,
  };
}
