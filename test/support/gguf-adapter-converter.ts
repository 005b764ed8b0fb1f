// Turns a PEFT adapter into the GGUF file that a converter would make of it, for tests: names, and rows of b where a converter of the base
// moves the matrix's rows. A file has one alpha; what else a pair is scaled by goes into its b.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { openPeftAdapter } from "../../src/adapters/peft.js";
import { toFloat32 } from "../../src/core/dequantize/dequantize.js";
import { convertByHead, PERMUTED, permute } from "./gguf-converter.js";
import { ARCHITECTURE, ggufName, LAYER, MODEL } from "./gguf-names.js";
import { type GgufTensor, writeGguf } from "./gguf-writer.js";

const ALPHA = 16;

/** `base` is the base's folder on Hugging Face. */
export function convertAdapterToGguf(folder: string, base: string): Buffer {
  const raw = JSON.parse(readFileSync(join(base, "config.json"), "utf8"));
  const architecture = ARCHITECTURE[raw.architectures[0]]!;
  const adapter = openPeftAdapter(folder);
  const tensors: GgufTensor[] = [];
  for (const { module, a, b, rank, scale } of adapter.pairs) {
    const name = nameOf(`${module}.weight`);
    let values: { shape: readonly number[]; values: Float32Array } = {
      shape: b.shape,
      values: toFloat32(b).map((value) => (value * scale * rank) / ALPHA),
    };
    const heads = name.includes(".attn_q.") ? raw.num_attention_heads : raw.num_key_value_heads;
    if (PERMUTED.includes(architecture) && /\.attn_[qk]\./.test(name)) values = permute(values, heads);
    if (architecture === "gptneox" && name.includes("attn_qkv"))
      values = convertByHead(values, raw.num_attention_heads);
    const put = (half: string, shape: readonly number[], numbers: Float32Array): void => {
      const bytes = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
      tensors.push({ name: `${name}.lora_${half}`, dtype: "f32", shape, bytes });
    };
    put("a", a.shape, toFloat32(a));
    put("b", values.shape, values.values);
  }
  adapter.close();
  const metadata = {
    "general.type": "adapter",
    "general.architecture": architecture,
    "adapter.type": "lora",
    "adapter.lora.alpha": { type: 6, bytes: Buffer.from(Float32Array.of(ALPHA).buffer) },
  };
  return writeGguf(metadata, tensors);
}

function nameOf(name: string): string {
  const ofModel = ggufName(MODEL, name);
  if (ofModel !== undefined) return ofModel;
  const [, layer, part] = /^(?:model\.layers|gpt_neox\.layers|transformer\.h)\.(\d+)\.(.*)$/.exec(name)!;
  return `blk.${layer}.${part === "self_attn.kv_b_proj.weight" ? "attn_kv_b.weight" : ggufName(LAYER, part!)}`;
}
