// A mixture of experts as a layer's feed-forward: router, chosen experts, and the experts that every token shares, where there are.

import type {
  Device,
  ExpertWeights,
  MapOp,
  RouterSpec,
  StagedBatch,
  Tensor,
  Weight,
  WeightQuantization,
} from "../../device/device.js";
import { entryOf } from "../../formats/tensor-views.js";
import type { ConfigReader } from "../config-reader.js";
import type { Loader } from "../loader.js";
import type { Caches } from "../model.js";
import type { Block, Epilogue } from "./block.js";
import { type Linear, loadLinear } from "./linear.js";

export interface MixtureWeights {
  readonly router: Linear; // [E, hidden]
  readonly experts: ExpertWeights;
  /** Adds to the same output. */
  readonly shared: Block | null;
}

export class MixtureOfExperts implements Block {
  readonly #device: Device;
  readonly #weights: MixtureWeights;
  readonly #router: RouterSpec;
  readonly #isAdded: boolean;
  readonly #add: MapOp;
  readonly #scale: MapOp | null;
  readonly #logits: Tensor; // [T, E]
  readonly #out: Tensor; // [T, hidden]

  constructor(loader: Loader, hiddenSize: number, weights: MixtureWeights, router: RouterSpec, project: Epilogue) {
    this.#device = loader.device;
    loader.device.bindExperts?.(weights.experts, router.numExperts);
    this.#weights = weights;
    this.#router = router;
    this.#isAdded = project.accumulate ?? false;
    const { scale = 1 } = project;
    this.#add = loader.device.createMap({ kind: "add", scale });
    this.#scale = scale === 1 ? null : loader.device.createMap({ kind: "scale", factor: scale });
    this.#logits = loader.scratch("router", router.numExperts);
    this.#out = loader.scratch("mixture", hiddenSize);
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch, caches: Caches): void {
    const device = this.#device;
    const n = batch.numTokens;
    const { router, experts, shared } = this.#weights;
    const mixed = this.#isAdded ? this.#out : out;
    router.run(this.#logits, x, batch);
    device.mixtureOfExperts(mixed, x, this.#logits, this.#router, experts, n);
    if (this.#isAdded) device.map(out, this.#add, out, mixed, n);
    else if (this.#scale !== null) device.map(out, this.#scale, out, null, n);
    shared?.run(out, x, batch, caches);
  }
}

/** An expert that every token shares, weighted by the sigmoid of a gate of its own: out += sigmoid(gate(x)) * expert(x). */
export class GatedSharedExpert implements Block {
  readonly #device: Device;
  readonly #expert: Block;
  readonly #gate: Linear; // [1, hidden]
  readonly #sigmoid: MapOp;
  readonly #scaleRows: MapOp;
  readonly #add: MapOp;
  readonly #branch: Tensor; // [T, hidden]
  readonly #weight: Tensor; // [T, 1]

  /** `expert` gives its output, it does not add. */
  constructor(loader: Loader, hiddenSize: number, expert: Block, gateName: string, scale: number) {
    this.#device = loader.device;
    this.#expert = expert;
    this.#gate = loadLinear(loader, [{ name: gateName, rows: 1 }], hiddenSize, { quantize: "none" });
    this.#sigmoid = loader.device.createMap({ kind: "activation", activation: "sigmoid" });
    this.#scaleRows = loader.device.createMap({ kind: "scale_rows" });
    this.#add = loader.device.createMap({ kind: "add", scale });
    this.#branch = loader.scratch("shared expert", hiddenSize);
    this.#weight = loader.scratch("shared gate", 1);
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch, caches: Caches): void {
    const device = this.#device;
    const n = batch.numTokens;
    this.#expert.run(this.#branch, x, batch, caches);
    this.#gate.run(this.#weight, x, batch);
    device.map(this.#weight, this.#sigmoid, this.#weight, null, n);
    device.map(this.#branch, this.#scaleRows, this.#branch, this.#weight, n);
    device.map(out, this.#add, out, this.#branch, n);
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
  router: "mlp.gate",
  experts: "mlp.experts",
  gate: "gate_proj",
  up: "up_proj",
  down: "down_proj",
};

/** Those of Mixtral and MiniMax. */
export const W_EXPERTS: MixtureNames = {
  router: "block_sparse_moe.gate",
  experts: "block_sparse_moe.experts",
  gate: "w1",
  up: "w3",
  down: "w2",
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

/** Its weights are a softmax over the chosen experts alone. */
export function chosenSoftmaxRouter(config: MixtureConfig): RouterSpec {
  return { ...softmaxRouter(config, false), score: "softmax_topk" };
}

/** Experts that stand in for a feed-forward of `plain`'s size. */
export function readMixture(
  c: ConfigReader,
  plain: { readonly hiddenSize: number; readonly innerSize: number },
  numExperts: number,
  topK: number,
): MixtureConfig {
  const { hiddenSize, innerSize: expertSize } = plain;
  const activation = c.gatedActivation("hidden_act", "silu");
  return { hiddenSize, numExperts, topK: readTopK(c, numExperts, topK), expertSize, activation };
}

/** The router is small and its choices are discrete: it is never quantised. */
export function loadRouter(loader: Loader, name: string, config: MixtureConfig, hasBias = false): Linear {
  const quantize: WeightQuantization = "none";
  return loadLinear(loader, [{ name, rows: config.numExperts }], config.hiddenSize, { hasBias, quantize });
}

/** Experts without biases, stored one by one or in two stacks. */
export function loadExperts(loader: Loader, layer: string, names: MixtureNames, config: MixtureConfig): ExpertWeights {
  const stack = `${layer}.${names.experts}.gate_up_proj`;
  if (loader.has(stack)) return loadStackedExperts(loader, stack, `${layer}.${names.experts}.down_proj`, config);
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

/** Experts in stacks: gate and up [E, 2*inner, hidden], down [E, hidden, inner]; transposed: [E, hidden, 2*inner], [E, inner, hidden]. */
export function loadStackedExperts(
  loader: Loader,
  gateUp: string,
  down: string,
  config: MixtureConfig,
  transposed = false,
): ExpertWeights {
  const { numExperts, hiddenSize, expertSize, activation } = config;
  const each = (name: string, rows: number, cols: number): Weight[] => {
    const stack = loader.host(name, transposed ? [numExperts, cols, rows] : [numExperts, rows, cols]);
    return Array.from({ length: numExperts }, (_, e) =>
      loader.matrixOf([entryOf(stack, `${name}[${e}]`, e)], { transposed }),
    );
  };
  return {
    gateUp: each(gateUp, 2 * expertSize, hiddenSize),
    down: each(down, hiddenSize, expertSize),
    gateUpBias: null,
    downBias: null,
    inner: expertSize,
    activation,
  };
}

/** Experts without a gate, stored one by one: up_proj and down_proj. */
export function loadUngatedExperts(loader: Loader, name: string, config: MixtureConfig): ExpertWeights {
  const { numExperts, hiddenSize, expertSize, activation } = config;
  const each = (part: string, rows: number, cols: number): Weight[] =>
    Array.from({ length: numExperts }, (_, e) => loader.matrix([{ name: `${name}.${e}.${part}.weight`, rows, cols }]));
  return {
    gateUp: each("up_proj", expertSize, hiddenSize),
    down: each("down_proj", hiddenSize, expertSize),
    gateUpBias: null,
    downBias: null,
    inner: expertSize,
    activation,
    isGated: false,
  };
}
