// Writes random LoRA adapters, as PEFT saves them, for the checkpoints of tiny-checkpoint.ts.

import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { numbers } from "../contract/inputs.js";
import { type SafetensorsEntry, writeSafetensors } from "./safetensors-writer.js";

const HIDDEN = 48;
const KV = 16;
const FFN = 96;
const VOCAB = 260;

/** [outputs, inputs] of what adapters may change in a layer. */
const MODULES: Readonly<Record<string, readonly [number, number]>> = {
  "self_attn.q_proj": [HIDDEN, HIDDEN],
  "self_attn.k_proj": [KV, HIDDEN],
  "self_attn.v_proj": [KV, HIDDEN],
  "self_attn.o_proj": [HIDDEN, HIDDEN],
  "mlp.gate_proj": [FFN, HIDDEN],
  "mlp.up_proj": [FFN, HIDDEN],
  "mlp.down_proj": [HIDDEN, FFN],
};

export interface TinyAdapter {
  readonly seed: number;
  readonly rank?: number;
  /** Of the modules, and of lm_head. */
  readonly wanted?: RegExp;
  readonly layers?: number;
  /** How far A and B reach. */
  readonly size?: number;
}

/** Returns its folder. */
export function writeTinyAdapter(adapter: TinyAdapter, parent = mkdtempSync(join(tmpdir(), "pagoda-lora-"))): string {
  const { seed, rank = 4, wanted = /./, layers = 2, size = 0.4 } = adapter;
  const folder = join(parent, `adapter-${seed}`);
  mkdirSync(folder);
  const config = { peft_type: "LORA", r: rank, lora_alpha: 2 * rank, target_modules: null };
  writeFileSync(join(folder, "adapter_config.json"), JSON.stringify(config));
  const tensors = new Map<string, SafetensorsEntry>();
  const add = (module: string, [outputs, inputs]: readonly [number, number]): void => {
    if (!wanted.test(module)) return;
    const entry = (shape: readonly [number, number]): SafetensorsEntry => ({
      ...{ dtype: "F32", shape, data: numbers(shape[0] * shape[1], 1000 * seed + tensors.size, size) },
    });
    tensors.set(`base_model.model.${module}.lora_A.weight`, entry([rank, inputs]));
    tensors.set(`base_model.model.${module}.lora_B.weight`, entry([outputs, rank]));
  };
  for (let layer = 0; layer < layers; layer++) {
    for (const [module, shape] of Object.entries(MODULES)) add(`model.layers.${layer}.${module}`, shape);
  }
  add("lm_head", [VOCAB, HIDDEN]);
  writeSafetensors(join(folder, "adapter_model.safetensors"), tensors);
  return folder;
}
