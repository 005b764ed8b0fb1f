// Apertus: Llama with query and key heads normed, and a feed-forward without a gate whose activation (xIELU) is learned per layer.

import type { Device, MapOp, StagedBatch, Tensor } from "../../device/device.js";
import type { Block } from "../blocks/block.js";
import { type Linear, loadLinear } from "../blocks/linear.js";
import { readCommon } from "../common-config.js";
import { ConfigReader } from "../config-reader.js";
import {
  attentionBias,
  type DecoderConfig,
  decoderSpec,
  type LayerContext,
  llamaSettings,
  loadDecoder,
} from "../decoder.js";
import type { ModelFamily } from "../model.js";
import { withAbsentRope } from "../rope.js";

export const apertus: ModelFamily<DecoderConfig> = {
  architectures: ["ApertusForCausalLM"],
  parseConfig(raw, file) {
    const own = new ConfigReader(raw, file);
    own.only("hidden_act", "xielu");
    const settings = withAbsentRope({ rope_theta: 12e6, ...raw, hidden_act: "relu2" }, DEFAULT_ROPE);
    const c = new ConfigReader(settings, file);
    const plain = llamaSettings(c, readCommon(c, "ApertusForCausalLM", { eps: 1e-5 }));
    return {
      ...plain,
      attentionNorms: { before: "attention_layernorm", after: null },
      mlpNorms: { before: "feedforward_layernorm", after: null },
      attention: { ...attentionBias(plain, c.bool("attention_bias", false)), qkNorm: "head" },
    };
  },
  specOf: decoderSpec,
  load: (config, context) => loadDecoder(config, context, { feedForward: (layer) => new XieluMlp(config, layer) }),
};

const DEFAULT_ROPE = {
  rope_type: "llama3",
  rope_theta: 12e6,
  factor: 8,
  original_max_position_embeddings: 8192,
  low_freq_factor: 1,
  high_freq_factor: 4,
};

/** out += down(xielu(up(x))). */
class XieluMlp implements Block {
  readonly #device: Device;
  readonly #up: Linear; // [inner, hidden]
  readonly #down: Linear; // [hidden, inner]
  readonly #xielu: MapOp;
  readonly #inner: Tensor; // [T, inner]

  constructor({ hiddenSize, innerSize }: DecoderConfig, { loader, name, project }: LayerContext) {
    const number = (part: string, shape: readonly number[]): number =>
      loader.number(`${name}.mlp.act_fn.${part}`, shape);
    const softplus = (x: number): number => (x > 20 ? x : Math.log1p(Math.exp(x)));
    const beta = number("beta", []);
    this.#device = loader.device;
    this.#up = loadLinear(loader, [{ name: `${name}.mlp.up_proj`, rows: innerSize }], hiddenSize);
    this.#down = loadLinear(loader, [{ name: `${name}.mlp.down_proj`, rows: hiddenSize }], innerSize, { project });
    this.#xielu = loader.device.createMap({
      kind: "xielu",
      alphaP: softplus(number("alpha_p", [1])),
      alphaN: beta + softplus(number("alpha_n", [1])),
      beta,
      eps: number("eps", []),
    });
    this.#inner = loader.scratch("mlp", innerSize);
  }

  run(out: Tensor, x: Tensor, batch: StagedBatch): void {
    const n = batch.numTokens;
    this.#up.run(this.#inner, x, batch);
    this.#device.map(this.#inner, this.#xielu, this.#inner, null, n);
    this.#down.run(out, this.#inner, batch);
  }
}
