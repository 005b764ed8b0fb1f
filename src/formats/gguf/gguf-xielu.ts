// Apertus: the learned numbers of each layer's activation are tensors on Hugging Face, metadata in a file (`xielu.alpha_p`, ...).

import type { HostTensor } from "../../core/tensor.js";
import { madeTensor } from "../tensor-views.js";
import type { Config } from "./gguf-architecture.js";
import type { GgufKeys } from "./gguf-keys.js";
import { MAX_COUNT } from "./gguf-parts.js";

/** The parts, and their shapes as tensors. */
const PARTS: Readonly<Record<string, readonly number[]>> = { alpha_p: [1], alpha_n: [1], beta: [], eps: [] };

export function xieluConfig(keys: GgufKeys): Config {
  const count = keys.size("block_count", MAX_COUNT);
  const xielu: Config = {};
  for (const part of Object.keys(PARTS)) {
    const value = keys.general(`xielu.${part}`);
    const numbers = Array.isArray(value) ? value : Array.from({ length: count }, () => value);
    const isRight = numbers.length === count && numbers.every((n) => typeof n === "number" && Number.isFinite(n));
    if (!isRight) throw keys.refuse(`xielu.${part}`, `one number for each of ${count} layers`);
    xielu[part] = numbers;
  }
  return { xielu };
}

export function xieluTensors(config: Config): HostTensor[] {
  const xielu = config.xielu as Record<string, readonly number[]>;
  return Object.entries(PARTS).flatMap(([part, shape]) =>
    xielu[part]!.map((value, layer) => {
      const bytes = (): Uint8Array => new Uint8Array(Float32Array.of(value).buffer);
      return madeTensor(`model.layers.${layer}.mlp.act_fn.${part}`, "f32", shape, bytes);
    }),
  );
}
