// Adapters as Hugging Face PEFT saves them: a folder with adapter_config.json and adapter_model.safetensors. Every tensor of the file becomes
// half of a pair or the adapter is refused by the tensor's name. What changes the result in another way than W + scale * b a is refused by the
// field's name, and so is a field that is not known and asks for something.

import { join } from "node:path";
import { FormatError } from "../core/errors.js";
import type { HostTensor, TensorSource } from "../core/tensor.js";
import { openSafetensors } from "../formats/hf/safetensors.js";
import { isRecord, readJsonObject } from "../formats/json-file.js";
import type { Adapter, AdapterPair } from "./adapter.js";
import { patternOf, wholePatternOf } from "./pattern.js";

export const PEFT_CONFIG = "adapter_config.json";
const WEIGHTS = "adapter_model.safetensors";
const BEFORE = "base_model.model.";
const HALF = /^(.+)\.lora_(A|B)\.weight$/;

/** Fields that are read here, or that say how the adapter was trained, found or started. */
const KNOWN = new Set<string>([
  ...[
    "peft_type",
    "r",
    "lora_alpha",
    "use_rslora",
    "rank_pattern",
    "alpha_pattern",
    "init_lora_weights",
    "fan_in_fan_out",
  ],
  ...["target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"],
  ...[
    "auto_mapping",
    "base_model_name_or_path",
    "revision",
    "task_type",
    "inference_mode",
    "peft_version",
    "lora_dropout",
  ],
  ...[
    "loftq_config",
    "eva_config",
    "corda_config",
    "lora_ga_config",
    "megatron_config",
    "megatron_core",
    "runtime_config",
  ],
  ...["qalora_group_size", "ensure_weight_tying"],
]);

/** Starting points that leave the base as it is. The others (pissa, olora, corda, loftq) took something out of it that is not in the file. */
const KEEPS_BASE = [true, false, "gaussian", "eva", "orthogonal"];

export function openPeftAdapter(folder: string): Adapter {
  const configFile = join(folder, PEFT_CONFIG);
  const config = readJsonObject(configFile);
  const scaleOf = readScales(config, configFile);
  const isChosen = readChoice(config, configFile);
  const source = openSafetensors(join(folder, WEIGHTS));
  try {
    const pairs = readPairs(source, scaleOf);
    for (const { module, a } of pairs) {
      if (isChosen(module)) continue;
      const reason = "target_modules and layers_to_transform do not choose its module, so training did not change it";
      throw new FormatError("adapter_unfit", { file: source.path, tensor: a.name, reason });
    }
    return { file: source.path, pairs, close: () => source.close() };
  } catch (error) {
    source.close();
    throw error;
  }
}

interface Scaling {
  readonly rank: number;
  readonly scale: number;
}

type Refuse = (param: string, known: string) => FormatError;

function refusalOf(config: Record<string, unknown>, file: string): Refuse {
  return (param, known) =>
    new FormatError("unsupported_model_option", { file, param, value: shown(config[param]), known });
}

/** Whether a module is one that the config says was trained: PEFT itself would leave out what it has of others. */
function readChoice(config: Record<string, unknown>, file: string): (module: string) => boolean {
  const refuse = refusalOf(config, file);
  const { target_modules: targets = null, layers_to_transform: layers = null } = config;
  const isList = Array.isArray(targets) && targets.every((target) => typeof target === "string");
  if (targets !== null && typeof targets !== "string" && !isList)
    throw refuse("target_modules", "a list of names, or an expression");
  const numbers = (Array.isArray(layers) ? layers : layers === null ? [] : [layers]) as unknown[];
  if (!numbers.every((layer) => Number.isSafeInteger(layer)))
    throw refuse("layers_to_transform", "a number, or a list of numbers");
  // Of an expression that could take for ever to match, the file alone says what it chose.
  const pattern = typeof targets === "string" && targets !== "all-linear" ? wholePatternOf(targets) : null;
  return (module) => {
    const layer = /\.(\d+)\./.exec(module)?.[1];
    if (numbers.length > 0 && !numbers.includes(Number(layer ?? -1))) return false;
    if (isList) return (targets as string[]).some((target) => module === target || module.endsWith(`.${target}`));
    return pattern === null || pattern.test(module);
  };
}

/** Rank and scale of a module by the config. */
function readScales(config: Record<string, unknown>, file: string): (module: string) => Scaling {
  const refuse = refusalOf(config, file);
  if (config.peft_type !== "LORA") throw refuse("peft_type", "LORA");
  for (const field of Object.keys(config)) {
    if (asksForMore(config[field]) && !KNOWN.has(field)) throw refuse(field, "adapters without it");
  }
  const init = config.init_lora_weights ?? true;
  if (!KEEPS_BASE.includes(init as boolean))
    throw refuse("init_lora_weights", "those that leave the base as it is: save the adapter converted to plain LoRA");
  const rank = config.r;
  if (!Number.isSafeInteger(rank) || (rank as number) < 1) throw refuse("r", "a whole number from 1 on");
  const alpha = config.lora_alpha ?? 8; // PEFT's own default
  if (!isNumber(alpha)) throw refuse("lora_alpha", "a number");
  const ranks = readPatterns(config, "rank_pattern", refuse);
  const alphas = readPatterns(config, "alpha_pattern", refuse);
  const isRootScaled = config.use_rslora === true;
  return (module) => {
    const own = ranks.find(([pattern]) => pattern.test(module))?.[1] ?? (rank as number);
    const ownAlpha = alphas.find(([pattern]) => pattern.test(module))?.[1] ?? alpha;
    return { rank: own, scale: ownAlpha / (isRootScaled ? Math.sqrt(own) : own) };
  };
}

function readPatterns(
  config: Record<string, unknown>,
  field: string,
  refuse: Refuse,
): readonly (readonly [RegExp, number])[] {
  const patterns = config[field] ?? {};
  if (!isRecord(patterns)) throw refuse(field, "an object of module -> number");
  return Object.entries(patterns).map(([key, value]) => {
    const pattern = patternOf(key);
    if (pattern === null || !isNumber(value))
      throw refuse(field, "names of modules, or simple expressions, -> numbers");
    return [pattern, value] as const;
  });
}

function readPairs(source: TensorSource, scaleOf: (module: string) => Scaling): AdapterPair[] {
  const halves = new Map<string, { a?: HostTensor; b?: HostTensor }>();
  for (const name of source.names()) {
    const match = HALF.exec(name);
    if (match === null) {
      const reason = "it is neither lora_A.weight nor lora_B.weight of a module";
      throw new FormatError("adapter_unfit", { file: source.path, tensor: name, reason });
    }
    const [, module, half] = match;
    const pair = halves.get(module!) ?? {};
    pair[half === "A" ? "a" : "b"] = source.get(name);
    halves.set(module!, pair);
  }
  return [...halves].map(([path, { a, b }]) => {
    if (a === undefined || b === undefined) {
      const tensor = `${path}.lora_${a === undefined ? "A" : "B"}.weight`;
      throw new FormatError("tensor_missing", { file: source.path, tensor, expected: "that of the adapter's rank" });
    }
    const module = path.startsWith(BEFORE) ? path.slice(BEFORE.length) : path;
    const { rank, scale } = scaleOf(module);
    if (a.shape.length !== 2 || a.shape[0] !== rank) throw wrongShape(source, a, `[${rank}, inputs]`);
    if (b.shape.length !== 2 || b.shape[1] !== rank) throw wrongShape(source, b, `[outputs, ${rank}]`);
    return { module, a, b, rank, scale };
  });
}

function wrongShape(source: TensorSource, { name, shape }: HostTensor, expected: string): FormatError {
  const found = `[${shape.join(", ")}]`;
  return new FormatError("tensor_mismatch", { file: source.path, tensor: name, expected: `shape ${expected}`, found });
}

function asksForMore(value: unknown): boolean {
  if (value === undefined || value === null || value === false || value === "none") return false;
  return Object.keys(value as object).length > 0 || typeof value !== "object";
}

const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? "absent";
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}
