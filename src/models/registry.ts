// The families by architecture name.

import { errorFor } from "../core/errors.js";
import { isRecord } from "../formats/json-file.js";
import type { CommonConfig } from "./common-config.js";
import { ConfigReader } from "./config-reader.js";
import { apertus } from "./families/apertus.js";
import { arcee } from "./families/arcee.js";
import { bert, camembert, distilbert, roberta, xlmRoberta } from "./families/bert.js";
import { bitnet } from "./families/bitnet.js";
import { cohere, cohere2 } from "./families/cohere.js";
import { deepseekV2, deepseekV3, glm4MoeLite, mistral4 } from "./families/deepseek.js";
import { ernie45 } from "./families/ernie4-5.js";
import { ernie45Moe } from "./families/ernie4-5-moe.js";
import { exaone4 } from "./families/exaone4.js";
import { falconH1 } from "./families/falcon-h1.js";
import { gemma, gemma2, gemma3 } from "./families/gemma.js";
import { gemma3n } from "./families/gemma3n.js";
import { gemma4 } from "./families/gemma4.js";
import { glm, glm4 } from "./families/glm4.js";
import { glm4Moe } from "./families/glm4-moe.js";
import { gptNeox } from "./families/gpt-neox.js";
import { gptOss } from "./families/gpt-oss.js";
import { gpt2 } from "./families/gpt2.js";
import { granite } from "./families/granite.js";
import { graniteHybrid } from "./families/granite-hybrid.js";
import { graniteMoe, graniteMoeShared } from "./families/granite-moe.js";
import { hunyuan } from "./families/hunyuan.js";
import { lfm2 } from "./families/lfm2.js";
import { lfm2Moe } from "./families/lfm2-moe.js";
import { llama } from "./families/llama.js";
import { llama4 } from "./families/llama4.js";
import { mamba2 } from "./families/mamba2.js";
import { minimaxM2 } from "./families/minimax-m2.js";
import { ministral3 } from "./families/ministral3.js";
import { mistral } from "./families/mistral.js";
import { mixtral } from "./families/mixtral.js";
import { modernbert } from "./families/modernbert.js";
import { nemotron } from "./families/nemotron.js";
import { nemotronH } from "./families/nemotron-h.js";
import { nomicBert } from "./families/nomic-bert.js";
import { olmo2 } from "./families/olmo2.js";
import { olmo3 } from "./families/olmo3.js";
import { olmoe } from "./families/olmoe.js";
import { phi } from "./families/phi.js";
import { phi3 } from "./families/phi3.js";
import { qwen2 } from "./families/qwen2.js";
import { qwen2Moe } from "./families/qwen2-moe.js";
import { qwen3 } from "./families/qwen3.js";
import { qwen3Moe } from "./families/qwen3-moe.js";
import { qwen3Next, qwen35, qwen35Moe } from "./families/qwen3-next.js";
import { seedOss } from "./families/seed-oss.js";
import { smollm3 } from "./families/smollm3.js";
import { stablelm } from "./families/stablelm.js";
import { starcoder2 } from "./families/starcoder2.js";
import type { ModelFamily } from "./model.js";
import { COPIED_HEAD, OTHER_MODALITIES, ReadCheck } from "./read-check.js";
import { causalNames, withoutHead } from "./text-heads.js";

// biome-ignore lint/suspicious/noExplicitAny: each family has its own config type, which only the family itself reads
const FAMILIES: readonly ModelFamily<any>[] = [
  llama,
  mistral,
  mixtral,
  qwen2,
  qwen3,
  qwen3Moe,
  qwen2Moe,
  qwen3Next,
  qwen35,
  qwen35Moe,
  lfm2,
  mamba2,
  apertus,
  arcee,
  bitnet,
  cohere,
  cohere2,
  ernie45,
  exaone4,
  glm,
  glm4,
  gptNeox,
  hunyuan,
  ministral3,
  nemotron,
  olmo3,
  phi,
  seedOss,
  stablelm,
  starcoder2,
  gemma,
  gemma2,
  gemma3,
  gemma3n,
  gemma4,
  phi3,
  olmo2,
  smollm3,
  granite,
  gptOss,
  deepseekV3,
  deepseekV2,
  glm4Moe,
  glm4MoeLite,
  mistral4,
  ernie45Moe,
  graniteMoe,
  graniteMoeShared,
  graniteHybrid,
  falconH1,
  nemotronH,
  llama4,
  lfm2Moe,
  minimaxM2,
  olmoe,
  gpt2,
  bert,
  roberta,
  xlmRoberta,
  camembert,
  distilbert,
  modernbert,
  nomicBert,
];

/** Other names of the same forward. */
const ALIASES: Readonly<Record<string, string>> = {
  LLaMAForCausalLM: "LlamaForCausalLM",
  YiForCausalLM: "LlamaForCausalLM",
  AquilaForCausalLM: "LlamaForCausalLM",
  Ernie4_5_ForCausalLM: "Ernie4_5ForCausalLM",
};

/** Models of text and images or sound: their text part is a family here, by its model_type; the rest is left unread. */
const WHOLE_MODELS: readonly string[] = [
  "Gemma3ForConditionalGeneration",
  "Gemma3nForConditionalGeneration",
  "Gemma4ForConditionalGeneration",
  "Mistral3ForConditionalGeneration",
  "Llama4ForConditionalGeneration",
  "Qwen2VLForConditionalGeneration",
  "Qwen2_5_VLForConditionalGeneration",
  "Qwen3VLForConditionalGeneration",
  "Qwen3VLMoeForConditionalGeneration",
  "Qwen3_5ForConditionalGeneration",
  "Qwen3_5MoeForConditionalGeneration",
  "Cohere2VisionForConditionalGeneration",
  "Lfm2VlForConditionalGeneration",
  "LlavaForConditionalGeneration",
  "InternVLForConditionalGeneration",
  "SmolVLMForConditionalGeneration",
  "Idefics3ForConditionalGeneration",
];

const TEXT_TYPES: Readonly<Record<string, string>> = {
  gemma3_text: "Gemma3ForCausalLM",
  gemma3n_text: "Gemma3nForCausalLM",
  gemma4_text: "Gemma4ForCausalLM",
  mistral: "MistralForCausalLM",
  ministral3: "Ministral3ForCausalLM",
  mistral4: "Mistral4ForCausalLM",
  llama4_text: "Llama4ForCausalLM",
  qwen2_vl: "Qwen2ForCausalLM",
  qwen2_vl_text: "Qwen2ForCausalLM",
  qwen2_5_vl: "Qwen2ForCausalLM",
  qwen2_5_vl_text: "Qwen2ForCausalLM",
  qwen3_vl_text: "Qwen3ForCausalLM",
  qwen3_vl_moe_text: "Qwen3MoeForCausalLM",
  qwen3_5_text: "Qwen3_5ForCausalLM",
  qwen3_5_moe_text: "Qwen3_5MoeForCausalLM",
  cohere2: "Cohere2ForCausalLM",
  lfm2: "Lfm2ForCausalLM",
  llama: "LlamaForCausalLM",
  qwen2: "Qwen2ForCausalLM",
  qwen3: "Qwen3ForCausalLM",
};

/** Older configs of these have the fields of the text part beside the others. */
const FLAT: readonly string[] = ["Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"];

/** What text_config is where it does not say. */
const DEFAULT_TEXT: Readonly<Record<string, string>> = {
  Gemma3ForConditionalGeneration: "gemma3_text",
  Mistral3ForConditionalGeneration: "mistral",
  LlavaForConditionalGeneration: "llama",
  InternVLForConditionalGeneration: "qwen2",
  SmolVLMForConditionalGeneration: "llama",
  Idefics3ForConditionalGeneration: "llama",
};

/** Every architecture that can be loaded. */
export function knownArchitectures(): readonly string[] {
  return [...FAMILIES.flatMap((family) => family.architectures), ...Object.keys(ALIASES), ...WHOLE_MODELS];
}

/** The family of a config.json, by its `architectures`. */
export function familyOf(raw: Record<string, unknown>, file: string): ModelFamily {
  const names = (Array.isArray(raw.architectures) ? raw.architectures : []).map((name) => ALIASES[name] ?? name);
  const whole = WHOLE_MODELS.find((name) => names.includes(name));
  const own = whole === undefined ? names : [textArchitecture(raw, file, whole)];
  const family = FAMILIES.find((known) => known.architectures.some((name) => own.includes(name)));
  if (family !== undefined) return checked(whole === undefined ? family : textPart(family, whole));
  for (const name of names) {
    const causal = FAMILIES.find(({ architectures }) =>
      causalNames(name).some((known) => architectures.includes(known)),
    );
    if (causal !== undefined) return checked(withoutHead(causal, name) as ModelFamily);
  }
  throw errorFor("unsupported_architecture", {
    value: names.length > 0 ? names.join(", ") : `"${String(raw.model_type ?? "")}" (no architectures in ${file})`,
    known: knownArchitectures().join(", "),
  });
}

function textArchitecture(raw: Record<string, unknown>, file: string, whole: string): string {
  const type = textConfigOf(raw).model_type ?? DEFAULT_TEXT[whole];
  const known = Object.keys(TEXT_TYPES);
  if (typeof type === "string" && known.includes(type)) return TEXT_TYPES[type]!;
  throw new ConfigReader(raw, file).refuse("text_config.model_type", type, known.join(", "));
}

/** The configuration of the text part. */
function textConfigOf(raw: Record<string, unknown>): Record<string, unknown> {
  return isRecord(raw.text_config) ? raw.text_config : raw;
}

/** The same family, refusing a checkpoint with tensors that it does not read. */
function checked(family: ModelFamily): ModelFamily {
  return {
    ...family,
    load(config, context) {
      const source = new ReadCheck(context.source);
      const model = family.load(config, { ...context, source });
      const { isTied = false } = config as Partial<CommonConfig>;
      const ignored = [...(family.ignoredTensors?.(config) ?? []), ...(isTied ? [COPIED_HEAD] : [])];
      source.finish(model.spec.architecture, ignored);
      return model;
    },
  };
}

/** The same family reading `text_config`; what concerns the whole model stays beside it. */
function textPart(family: ModelFamily, whole: string): ModelFamily {
  return {
    ...family,
    ignoredTensors: (config) => [...OTHER_MODALITIES, ...(family.ignoredTensors?.(config) ?? [])],
    parseConfig(raw, file) {
      const { quantization_config, tie_word_embeddings } = raw;
      const c = new ConfigReader(raw, file);
      c.check(isRecord(raw.text_config) || FLAT.includes(whole), "text_config", "an object");
      const tied = tie_word_embeddings === undefined ? {} : { tie_word_embeddings };
      return family.parseConfig({ ...textConfigOf(raw), ...tied, quantization_config }, file);
    },
  };
}
