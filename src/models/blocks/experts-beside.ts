// Gemma 4's feed-forward where it has experts: a dense one and a mixture side by side, each normed by itself.
//
//   x += norm(norm1(mlp(before(x))) + norm2(mixture(before2(x))))
//
// The router reads x as it is, normed without weights and scaled; an expert's weight has a factor of its own.

import type { Device, ExpertWeights, MapOp, RouterSpec, StagedBatch, Tensor } from "../../device/device.js";
import type { ConfigReader } from "../config-reader.js";
import type { Loader } from "../loader.js";
import type { Caches } from "../model.js";
import type { Block } from "./block.js";
import type { Linear } from "./linear.js";
import {
  loadExperts,
  loadRouter,
  type MixtureConfig,
  type MixtureNames,
  MLP_EXPERTS,
  softmaxRouter,
} from "./mixture.js";
import { loadNorm, Norm, type NormStyle } from "./norm.js";
import type { Layer } from "./residual.js";

const NAMES: MixtureNames = { ...MLP_EXPERTS, router: "router.proj", experts: "experts" };

export function readExpertsBeside(c: ConfigReader, hiddenSize: number): MixtureConfig | null {
  if (!c.bool("enable_moe_block", false)) return null;
  const numExperts = c.int("num_experts");
  const topK = c.int("top_k_experts");
  c.check(topK <= numExperts, "top_k_experts", `at most ${numExperts}`);
  return {
    hiddenSize,
    numExperts,
    topK,
    expertSize: c.int("moe_intermediate_size"),
    activation: c.gatedActivation("hidden_activation", "gelu_pytorch_tanh"),
  };
}

export class ExpertsBesideMlp implements Layer {
  readonly #device: Device;
  readonly #mlp: Block;
  readonly #norms: readonly Norm[]; // before, before2, norm1, norm2, norm
  readonly #routerNorm: Norm;
  readonly #router: Linear; // [E, hidden]
  readonly #spec: RouterSpec;
  readonly #experts: ExpertWeights;
  readonly #normed: Tensor; // [T, hidden]
  readonly #branch: Tensor; // [T, hidden]
  readonly #mixed: Tensor; // [T, hidden]
  readonly #logits: Tensor; // [T, E]
  readonly #add: MapOp;

  /** `mlp` gives its output, it does not add. */
  constructor(loader: Loader, name: string, mlp: Block, config: MixtureConfig, style: NormStyle) {
    const { hiddenSize, numExperts } = config;
    const normOf = (part: string): Norm => loadNorm(loader, `${name}.${part}`, hiddenSize, style);
    this.#device = loader.device;
    this.#add = loader.device.createMap({ kind: "add", scale: 1 });
    this.#mlp = mlp;
    this.#norms = [
      normOf("pre_feedforward_layernorm"),
      normOf("pre_feedforward_layernorm_2"),
      normOf("post_feedforward_layernorm_1"),
      normOf("post_feedforward_layernorm_2"),
      normOf("post_feedforward_layernorm"),
    ];
    const scale = loader.hostValues(`${name}.router.scale`, [hiddenSize]).map((s) => s / Math.sqrt(hiddenSize));
    this.#routerNorm = new Norm(loader.device, loader.device.loadTensor(scale, 1, hiddenSize), null, style.eps);
    this.#router = loadRouter(loader, `${name}.${NAMES.router}`, config);
    const expertScale = loader.vector(`${name}.router.per_expert_scale`, numExperts);
    this.#spec = { ...softmaxRouter(config, true), expertScale };
    this.#experts = loadExperts(loader, name, NAMES, config);
    loader.device.bindExperts?.(this.#experts, numExperts);
    this.#normed = loader.scratch("normed", hiddenSize);
    this.#branch = loader.scratch("branch", hiddenSize);
    this.#mixed = loader.scratch("mixture", hiddenSize);
    this.#logits = loader.scratch("router", numExperts);
  }

  run(x: Tensor, batch: StagedBatch, caches: Caches): void {
    const n = batch.numTokens;
    const [before, before2, norm1, norm2, norm] = this.#norms as [Norm, Norm, Norm, Norm, Norm];
    const branch = this.#branch;
    before.run(this.#normed, x, n);
    this.#mlp.run(branch, this.#normed, batch, caches);
    norm1.run(branch, branch, n);
    this.#routerNorm.run(this.#normed, x, n);
    this.#router.run(this.#logits, this.#normed, batch);
    before2.run(this.#normed, x, n);
    this.#device.mixtureOfExperts(this.#mixed, this.#normed, this.#logits, this.#spec, this.#experts, n);
    norm2.run(this.#mixed, this.#mixed, n);
    this.#device.map(branch, this.#add, branch, this.#mixed, n);
    norm.run(branch, branch, n);
    this.#device.map(x, this.#add, x, branch, n);
  }
}
