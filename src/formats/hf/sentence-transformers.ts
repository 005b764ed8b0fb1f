// The files that sentence-transformers puts into a model folder: modules.json lists what runs after the transformer, each module with
// a config.json in a folder of its own. What is not known here is refused by name: without it the vectors would be others.

import { readFileSync } from "node:fs";
import { join, normalize } from "node:path";
import { FormatError } from "../../core/errors.js";
import type { Pooling } from "../../core/pooling.js";
import { isRecord, readJsonObject, requireRegularFile, tryReadJsonObject } from "../json-file.js";
import {
  type DenseActivation,
  type DenseModule,
  NO_RECIPE,
  type TextRecipe,
  type VerdictTokens,
} from "../text-recipe.js";

/** `config` is the model's config.json: cross-encoders keep their activation there. */
export function readTextRecipe(folder: string, config: Record<string, unknown>): TextRecipe {
  const settings = tryReadJsonObject(join(folder, "config_sentence_transformers.json")) ?? {};
  const lengths = tryReadJsonObject(join(folder, "sentence_bert_config.json")) ?? {};
  const recipe: { -readonly [K in keyof TextRecipe]: TextRecipe[K] } = { ...NO_RECIPE };
  const dense: DenseModule[] = [];
  for (const { kind, path } of modulesOf(folder)) {
    const file = join(path, "config.json");
    if (kind === "Pooling") recipe.pooling = readPooling(readJsonObject(file), file);
    else if (kind === "Dense") dense.push(readDense(readJsonObject(file), file, path));
    else if (kind === "LogitScore") {
      recipe.verdict = readVerdict(readJsonObject(file), file);
      recipe.isAsked = true;
    } else if (kind !== "Transformer" && kind !== "Normalize") {
      // Vectors are scaled to length 1 unless a request does not want it.
      throw refuse(join(folder, "modules.json"), "type", kind, "Transformer, Pooling, Dense, Normalize, LogitScore");
    }
  }
  recipe.dense = dense;
  if (isRecord(settings.prompts)) {
    const prompts = Object.entries(settings.prompts);
    recipe.prompts = Object.fromEntries(
      prompts.filter((entry): entry is [string, string] => typeof entry[1] === "string"),
    );
  }
  if (typeof settings.default_prompt_name === "string") recipe.defaultPrompt = settings.default_prompt_name;
  if (Number.isSafeInteger(lengths.max_seq_length) && (lengths.max_seq_length as number) > 0)
    recipe.maxLength = lengths.max_seq_length as number;
  recipe.scoreActivation = readScoreActivation(config, settings);
  return recipe;
}

/** The modules in order; none where there is no modules.json. */
function modulesOf(folder: string): { kind: string; path: string }[] {
  const file = join(folder, "modules.json");
  let list: unknown;
  try {
    requireRegularFile(file);
    list = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw corrupt(file, "content", "a list of modules", (error as Error).message);
  }
  if (!Array.isArray(list)) throw corrupt(file, "content", "a list of modules", typeof list);
  return list.map((entry) => {
    if (!isRecord(entry) || typeof entry.type !== "string" || typeof entry.path !== "string")
      throw corrupt(file, "module", "an object with type and path", JSON.stringify(entry).slice(0, 100));
    const path = normalize(entry.path);
    if (path.startsWith("..") || path.startsWith("/")) throw corrupt(file, "path", "a folder inside the model's", path);
    return { kind: entry.type.split(".").at(-1)!, path: join(folder, path) };
  });
}

const POOLING_NAMES: Readonly<Record<string, Pooling>> = {
  cls: "first",
  mean: "mean",
  max: "max",
  mean_sqrt_len_tokens: "mean_sqrt_len",
  weightedmean: "weighted_mean",
  lasttoken: "last",
};

const POOLING_FLAGS: Readonly<Record<string, Pooling>> = {
  pooling_mode_cls_token: "first",
  pooling_mode_mean_tokens: "mean",
  pooling_mode_max_tokens: "max",
  pooling_mode_mean_sqrt_len_tokens: "mean_sqrt_len",
  pooling_mode_weightedmean_tokens: "weighted_mean",
  pooling_mode_lasttoken: "last",
};

function readPooling(config: Record<string, unknown>, file: string): Pooling {
  if (config.include_prompt === false) throw refuse(file, "include_prompt", false, "true");
  const named = Array.isArray(config.pooling_mode) ? config.pooling_mode : [config.pooling_mode ?? []].flat();
  const modes = [
    ...named.map((name) => POOLING_NAMES[String(name)] ?? name),
    ...Object.keys(POOLING_FLAGS)
      .filter((flag) => config[flag] === true)
      .map((flag) => POOLING_FLAGS[flag]!),
  ];
  const unique = [...new Set(modes)];
  if (unique.length === 1 && Object.values(POOLING_NAMES).includes(unique[0])) return unique[0];
  throw refuse(file, "pooling_mode", unique.join(" and ") || "none", `one of ${Object.keys(POOLING_NAMES).join(", ")}`);
}

const ACTIVATIONS: Readonly<Record<string, DenseActivation>> = {
  Identity: "identity",
  Tanh: "tanh",
  ReLU: "relu",
  GELU: "gelu",
  Sigmoid: "sigmoid",
  SiLU: "silu",
};

function readDense(config: Record<string, unknown>, file: string, folder: string): DenseModule {
  const size = (name: string): number => {
    const value = config[name];
    if (!Number.isSafeInteger(value) || (value as number) < 1 || (value as number) > 2 ** 20)
      throw corrupt(file, name, "a size", JSON.stringify(value) ?? "nothing");
    return value as number;
  };
  const name = String(config.activation_function ?? "torch.nn.modules.activation.Tanh")
    .split(".")
    .at(-1)!;
  const activation = ACTIVATIONS[name];
  if (activation === undefined) throw refuse(file, "activation_function", name, Object.keys(ACTIVATIONS).join(", "));
  return {
    file: join(folder, "model.safetensors"),
    name: "linear",
    inputs: size("in_features"),
    outputs: size("out_features"),
    hasBias: config.bias !== false,
    activation,
  };
}

function readVerdict({ true_token_id: yes, false_token_id: no }: Record<string, unknown>, file: string): VerdictTokens {
  if (!Number.isSafeInteger(yes)) throw corrupt(file, "true_token_id", "a token id", JSON.stringify(yes) ?? "nothing");
  if (no !== undefined && no !== null && !Number.isSafeInteger(no))
    throw corrupt(file, "false_token_id", "a token id", JSON.stringify(no) ?? "nothing");
  return { yes: yes as number, no: (no as number | null | undefined) ?? null };
}

/** Named by class, in one of the places that versions of the library have used. */
function readScoreActivation(
  config: Record<string, unknown>,
  settings: Record<string, unknown>,
): TextRecipe["scoreActivation"] {
  const nested = isRecord(config.sentence_transformers) ? config.sentence_transformers.activation_fn : undefined;
  const name = nested ?? settings.activation_fn ?? config.sbert_ce_default_activation_function;
  switch (typeof name === "string" ? name.split(".").at(-1) : undefined) {
    case "Identity":
      return "identity";
    case "Sigmoid":
      return "sigmoid";
    case "Softmax":
      return "softmax";
    default:
      return null;
  }
}

function corrupt(file: string, what: string, expected: string, found: string): FormatError {
  return new FormatError("file_corrupt", { file, what, expected, found });
}

function refuse(file: string, param: string, value: unknown, known: string): FormatError {
  return new FormatError("unsupported_model_option", { file, param, value: String(value), known });
}
