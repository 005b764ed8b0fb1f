// A checkpoint with all that both threads need of it beside the weights: config, tokenizer, suggested sampling. Its chat template is only
// text here; client/chat-checkpoint.ts makes one that renders.

import { statSync } from "node:fs";
import { FormatError, RequestError } from "../core/errors.js";
import type { SamplingParams } from "../core/sampling.js";
import type { TensorSource } from "../core/tensor.js";
import { openGgufModel } from "../formats/gguf/gguf-model.js";
import { ggufRecipe } from "../formats/gguf/gguf-recipe.js";
import { mmprojBeside, openMmproj } from "../formats/gguf/mmproj/mmproj.js";
import { ModelFolder } from "../formats/hf/model-folder.js";
import { readTextRecipe } from "../formats/hf/sentence-transformers.js";
import { locateModel } from "../formats/hub/hub.js";
import { modelNameOf } from "../formats/hub/hub-cache.js";
import { isRecord } from "../formats/json-file.js";
import type { TextRecipe } from "../formats/text-recipe.js";
import { GgufTokenizer } from "../tokenizer/gguf-tokenizer.js";
import { readGgufChatTemplates } from "../tokenizer/gguf-vocab.js";
import { JsonTokenizer } from "../tokenizer/json-tokenizer.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";

export interface Checkpoint {
  readonly path: string;
  readonly name: string;
  /** config.json, or what stands for it; errors name `configFile`. */
  readonly config: Record<string, unknown>;
  readonly configFile: string;
  readonly eosIds: readonly number[];
  readonly generation: { readonly sampling: Partial<SamplingParams> };
  /** null when the checkpoint brings none: only token ids can be used then. */
  readonly tokenizer: Tokenizer | null;
  /** Sources of chat templates by name. */
  readonly templates: ReadonlyMap<string, string>;
  /** How texts become vectors or scores. */
  readonly recipe: TextRecipe;
  /** preprocessor_config.json, or what stands for it: how pictures are prepared; null: there is none. */
  readonly processor: { readonly raw: Record<string, unknown>; readonly file: string } | null;
  /** What its eyes are made from: config.json again, or what an mmproj file says. */
  readonly visionConfig: Record<string, unknown>;
  /** What is wrong with the eyes that were found beside it; null: nothing. */
  readonly blindBecause: string | null;
  openTensors(): TensorSource;
  /** Tensors of its eyes that are in a file of their own; null: they are among the others. */
  openVisionTensors(): TensorSource | null;
  requireTokenizer(): Tokenizer;
}

/**
 * Opens a folder, a .gguf file or a model of the hub that is in the cache. Reads no weights. `mmproj`: the file with its eyes; omitted: the one
 * beside a .gguf file, if there is any; null: none.
 */
export function openCheckpoint(model: string, mmproj?: string | null): Checkpoint {
  const path = locateModel(model);
  const isFile = statSync(path).isFile();
  const plain = isFile ? openGguf(path) : openFolder(path);
  const eyes = mmproj === undefined ? (isFile ? mmprojBeside(path) : null) : mmproj;
  if (eyes === null) return plain;
  try {
    return withMmproj(plain, eyes);
  } catch (error) {
    // A model that is asked for text alone must not fail because of a file that merely lies beside it.
    if (mmproj !== undefined || !(error instanceof FormatError)) throw error;
    return { ...plain, blindBecause: error.message };
  }
}

function withMmproj(plain: Checkpoint, file: string): Checkpoint {
  const { config, tokenizer } = plain;
  const own = isRecord(config.text_config) ? { ...config, ...config.text_config } : config;
  const { processor, ...mmproj } = openMmproj(file, {
    config: own,
    tokenId: (text) => tokenizer?.tokenToId(text) ?? null,
  });
  return {
    ...plain,
    visionConfig: mmproj.config,
    processor: { raw: processor, file },
    openVisionTensors: () => mmproj.source,
  };
}

function openGguf(path: string): Checkpoint {
  const { name, config, source, metadata, sampling } = openGgufModel(path);
  return checkpointOf({
    path,
    name,
    config,
    configFile: path,
    eosIds: config.eos_token_id as number[],
    sampling,
    tokenizer: metadata.has("tokenizer.ggml.model") ? new GgufTokenizer(metadata, path) : null,
    templates: readGgufChatTemplates(metadata),
    recipe: ggufRecipe(metadata, source),
    processor: null,
    openTensors: () => source,
  });
}

function openFolder(path: string): Checkpoint {
  const folder = new ModelFolder(path);
  const files = folder.readTokenizer();
  const tokenizer = files === null ? null : new JsonTokenizer({ ...files, eosIds: folder.generation.eosIds });
  return checkpointOf({
    path: folder.path,
    name: modelNameOf(folder.path),
    config: folder.config,
    configFile: folder.configFile,
    eosIds: folder.generation.eosIds,
    sampling: folder.generation.sampling,
    tokenizer,
    templates: folder.readChatTemplates(),
    recipe: readTextRecipe(folder.path, folder.config),
    processor: folder.readProcessor(),
    openTensors: () => folder.openTensors(),
  });
}

interface CheckpointParts {
  readonly path: string;
  readonly name: string;
  readonly config: Record<string, unknown>;
  readonly configFile: string;
  readonly eosIds: readonly number[];
  readonly sampling: Partial<SamplingParams>;
  readonly tokenizer: Tokenizer | null;
  readonly templates: ReadonlyMap<string, string>;
  readonly recipe: TextRecipe;
  readonly processor: Checkpoint["processor"];
  readonly openTensors: () => TensorSource;
}

function checkpointOf(parts: CheckpointParts): Checkpoint {
  const { tokenizer, sampling, ...rest } = parts;
  const eosIds = new Set([...rest.eosIds, ...(tokenizer?.eosIds ?? [])]);
  return {
    ...rest,
    eosIds: [...eosIds],
    recipe: withVerdict(parts, tokenizer),
    generation: { sampling },
    tokenizer,
    visionConfig: rest.config,
    blindBecause: null,
    openVisionTensors: () => null,
    requireTokenizer: () => {
      if (tokenizer !== null) return tokenizer;
      const expected = `an array of token ids: ${rest.name} has no tokenizer`;
      throw new RequestError("invalid_value", { param: "prompt", value: "text", expected });
    },
  };
}

/** Qwen's rerankers are causal models like any other: only their name says that "yes" and "no" are verdicts. */
function withVerdict({ recipe, name, config }: CheckpointParts, tokenizer: Tokenizer | null): TextRecipe {
  if (recipe.isAsked || !/qwen3-reranker/i.test(name) || tokenizer === null) return recipe;
  const isClassifier = String(config.architectures).includes("ForSequenceClassification");
  const yes = tokenizer.tokenToId("yes");
  if (isClassifier || yes === null) return { ...recipe, isAsked: isClassifier };
  return { ...recipe, isAsked: true, verdict: { yes, no: tokenizer.tokenToId("no") } };
}
