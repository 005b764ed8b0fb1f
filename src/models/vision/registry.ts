// The eyes of models that have any, by architecture.

import { ReadCheck } from "../read-check.js";
import { gemma3Eyes, llavaEyes, smolvlmEyes } from "./families/clip.js";
import { gemma4Eyes } from "./families/gemma4.js";
import { internvlEyes } from "./families/internvl.js";
import { lfm2VlEyes } from "./families/lfm2-vl.js";
import { llama4Eyes } from "./families/llama4.js";
import { mistral3Eyes } from "./families/pixtral.js";
import { qwen3Eyes, qwen25Eyes } from "./families/qwen-vl.js";
import type { VisionFamily } from "./vision-model.js";

// biome-ignore lint/suspicious/noExplicitAny: each family has its own config type, which only the family itself reads
const FAMILIES: Readonly<Record<string, VisionFamily<any>>> = {
  LlavaForConditionalGeneration: llavaEyes,
  Mistral3ForConditionalGeneration: mistral3Eyes,
  InternVLForConditionalGeneration: internvlEyes,
  SmolVLMForConditionalGeneration: smolvlmEyes,
  Idefics3ForConditionalGeneration: smolvlmEyes,
  Gemma3ForConditionalGeneration: gemma3Eyes,
  Gemma4ForConditionalGeneration: gemma4Eyes,
  Lfm2VlForConditionalGeneration: lfm2VlEyes,
  Llama4ForConditionalGeneration: llama4Eyes,
  Qwen2_5_VLForConditionalGeneration: qwen25Eyes,
  Qwen3VLForConditionalGeneration: qwen3Eyes,
  Qwen3VLMoeForConditionalGeneration: qwen3Eyes,
  Qwen3_5ForConditionalGeneration: qwen3Eyes,
  Qwen3_5MoeForConditionalGeneration: qwen3Eyes,
};

export const SEEING_ARCHITECTURES: readonly string[] = Object.keys(FAMILIES);

/** The eyes of a config.json; null: the model has none. */
export function visionOf(raw: Record<string, unknown>): VisionFamily | null {
  const names = Array.isArray(raw.architectures) ? raw.architectures : [];
  const family = names.map((name) => FAMILIES[name]).find((known) => known !== undefined);
  if (family === undefined || (raw.vision_config ?? null) === null) return null;
  return checked(family);
}

/** The same, refusing a checkpoint whose tower has tensors that are not read. */
function checked(family: VisionFamily): VisionFamily {
  return {
    ...family,
    load(config, context, capacity) {
      const source = new ReadCheck(context.source);
      const eyes = family.load(config, { ...context, source }, capacity);
      const others = new RegExp(`^(?!${family.tensors.source.replace(/^\^/, "")})`);
      source.finish("the vision tower", [others, ...(family.ignoredTensors?.(config) ?? [])]);
      return eyes;
    },
  };
}
