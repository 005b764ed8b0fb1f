// The rotary fields of config.json, in the spellings found in the wild, as one typed form. What they mean in numbers
// (inverse frequencies, attention scaling) is src/models/rope.ts.
//
//   older   rope_theta, rope_scaling {type | rope_type, ...}, partial_rotary_factor, rope_local_base_freq (sliding layers)
//   newer   rope_parameters {rope_theta, rope_type, ...}, or one such object per layer type
//
// A rope type or a field that is not known here is refused by name: ignoring one gives a model that is subtly wrong.

import { FormatError } from "../core/errors.js";
import { isRecord } from "./json-file.js";

interface RopeCommon {
  readonly theta: number;
  /** Share of the head's dims that are rotated. */
  readonly partialRotaryFactor: number;
  /** max_position_embeddings; 0 when the config does not say. */
  readonly maxPosition: number;
  /** How many pairs turn with each of the three positions of tokens of pictures; omitted: all with one. */
  readonly sections?: readonly number[];
  /** The three take turns, pair by pair; else they come one after another. */
  readonly areSectionsInterleaved?: boolean;
}

export type RopeConfig = RopeCommon &
  (
    | { readonly type: "default" }
    | { readonly type: "linear"; readonly factor: number }
    /** Frequencies of the whole head, of which only the first share turns. */
    | { readonly type: "proportional"; readonly factor: number }
    | { readonly type: "dynamic"; readonly factor: number; readonly originalMaxPosition: number }
    | {
        readonly type: "yarn";
        readonly factor: number;
        readonly originalMaxPosition: number;
        /** null: computed from factor and the mscale fields. */
        readonly attentionFactor: number | null;
        readonly betaFast: number;
        readonly betaSlow: number;
        readonly mscale: number | null;
        readonly mscaleAllDim: number | null;
        readonly truncate: boolean;
      }
    | {
        readonly type: "llama3";
        readonly factor: number;
        readonly originalMaxPosition: number;
        readonly lowFreqFactor: number;
        readonly highFreqFactor: number;
      }
    | {
        readonly type: "longrope";
        readonly factor: number;
        readonly originalMaxPosition: number;
        readonly attentionFactor: number | null;
        readonly shortFactor: readonly number[]; // [rotaryDim / 2]
        readonly longFactor: readonly number[]; // [rotaryDim / 2]
      }
  );

export type RopeType = RopeConfig["type"];

/** Fields each type understands, beside the common ones. */
const FIELDS: Readonly<Record<RopeType, readonly string[]>> = {
  default: [],
  linear: ["factor"],
  proportional: ["factor"],
  dynamic: ["factor", "original_max_position_embeddings"],
  yarn: [
    "factor",
    "original_max_position_embeddings",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "truncate",
  ],
  llama3: ["factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"],
  longrope: ["factor", "original_max_position_embeddings", "attention_factor", "short_factor", "long_factor"],
};

/**
 * `finetuned` marks how yarn weights were made and changes nothing. The sections of multimodal ropes turn with other positions
 * inside images only: in text, all of them are the token's own.
 */
const COMMON_FIELDS = [
  "rope_theta",
  "rope_type",
  "type",
  "partial_rotary_factor",
  "finetuned",
  "mrope_section",
  "mrope_interleaved",
  "max_position_embeddings",
];

/** Older names of the same type. */
const ALIASES: Readonly<Record<string, RopeType>> = { su: "longrope", mrope: "default" };

/**
 * The rope of the layers of `layerType` ("full_attention", "sliding_attention"); models whose layers are all alike leave it out.
 * `raw` is config.json, `file` is named in errors.
 */
export function readRope(raw: Record<string, unknown>, file: string, layerType?: string): RopeConfig {
  const { where, fields } = ropeFields(raw, file, layerType);
  const named = fields.rope_type ?? fields.type ?? "default";
  const type = ALIASES[named as string] ?? (named as RopeType);
  if (typeof type !== "string" || !Object.hasOwn(FIELDS, type)) {
    throw refuse(file, `${where}.rope_type`, named, Object.keys(FIELDS).join(", "));
  }
  for (const [key, value] of Object.entries(fields)) {
    const known = [...COMMON_FIELDS, ...FIELDS[type]];
    if (value !== null && !known.includes(key)) throw refuse(file, `${where}.${key}`, value, known.join(", "));
  }

  const read = (key: string): number | null => positive(file, `${where}.${key}`, fields[key]);
  const need = (key: string): number => {
    const value = read(key);
    if (value === null) throw refuse(file, `${where}.${key}`, "missing", "a positive number");
    return value;
  };
  const maxPosition = positive(file, "max_position_embeddings", raw.max_position_embeddings) ?? 0;
  const common: RopeCommon = {
    theta: read("rope_theta") ?? 10_000,
    partialRotaryFactor: read("partial_rotary_factor") ?? 1,
    maxPosition,
    ...readSections(file, where, fields),
  };
  // Phi-3 keeps the original length beside rope_scaling, not in it.
  const originalMaxPosition =
    read("original_max_position_embeddings") ??
    positive(file, "original_max_position_embeddings", raw.original_max_position_embeddings) ??
    maxPosition;
  const needOriginal = (): number => {
    if (originalMaxPosition === 0) {
      throw refuse(file, `${where}.original_max_position_embeddings`, "missing", "a positive number");
    }
    return originalMaxPosition;
  };

  switch (type) {
    case "default":
      return { ...common, type };
    case "linear":
      return { ...common, type, factor: need("factor") };
    case "proportional":
      return { ...common, type, factor: read("factor") ?? 1 };
    case "dynamic":
      return { ...common, type, factor: need("factor"), originalMaxPosition: needOriginal() };
    case "yarn":
      return {
        ...common,
        type,
        factor: read("factor") ?? maxPosition / needOriginal(),
        originalMaxPosition: needOriginal(),
        attentionFactor: read("attention_factor"),
        betaFast: read("beta_fast") ?? 32,
        betaSlow: read("beta_slow") ?? 1,
        mscale: number(file, `${where}.mscale`, fields.mscale),
        mscaleAllDim: number(file, `${where}.mscale_all_dim`, fields.mscale_all_dim),
        truncate: fields.truncate !== false,
      };
    case "llama3":
      return {
        ...common,
        type,
        factor: need("factor"),
        originalMaxPosition: needOriginal(),
        lowFreqFactor: need("low_freq_factor"),
        highFreqFactor: need("high_freq_factor"),
      };
    case "longrope":
      return {
        ...common,
        type,
        factor: read("factor") ?? maxPosition / needOriginal(),
        originalMaxPosition: needOriginal(),
        attentionFactor: read("attention_factor"),
        shortFactor: numbers(file, `${where}.short_factor`, fields.short_factor),
        longFactor: numbers(file, `${where}.long_factor`, fields.long_factor),
      };
  }
}

function readSections(file: string, where: string, { mrope_section, mrope_interleaved }: Record<string, unknown>) {
  if ((mrope_section ?? null) === null) return {};
  const sections = numbers(file, `${where}.mrope_section`, mrope_section);
  if (sections.length !== 3) throw refuse(file, `${where}.mrope_section`, mrope_section, "three numbers");
  return { sections, areSectionsInterleaved: mrope_interleaved === true };
}

/** The fields of one rope, whichever way the config spells them, as the newer spelling would hold them. */
function ropeFields(raw: Record<string, unknown>, file: string, layerType: string | undefined) {
  const parameters = raw.rope_parameters;
  if (parameters !== undefined && parameters !== null) {
    if (!isRecord(parameters)) throw refuse(file, "rope_parameters", parameters, "an object");
    // One object per layer type: every value is an object.
    const values = Object.values(parameters);
    if (values.length > 0 && values.every(isRecord)) {
      const key = layerType ?? "full_attention";
      const own = parameters[key];
      if (!isRecord(own)) throw refuse(file, `rope_parameters.${key}`, "missing", "an object");
      return { where: `rope_parameters.${key}`, fields: withTopLevel(own, raw) };
    }
    return { where: "rope_parameters", fields: withTopLevel(parameters, raw) };
  }
  if (layerType === "sliding_attention" && raw.rope_local_base_freq !== undefined) {
    // Gemma 3: the scaling is for the global layers only.
    return { where: "rope_local_base_freq", fields: withTopLevel({ rope_theta: raw.rope_local_base_freq }, raw) };
  }
  const scaling = raw.rope_scaling ?? {};
  if (!isRecord(scaling)) throw refuse(file, "rope_scaling", scaling, "an object");
  return { where: "rope_scaling", fields: withTopLevel(scaling, raw) };
}

function withTopLevel(fields: Record<string, unknown>, raw: Record<string, unknown>): Record<string, unknown> {
  const { rope_theta, partial_rotary_factor } = raw;
  return { rope_theta, partial_rotary_factor, ...fields };
}

function number(file: string, param: string, value: unknown): number | null {
  if (value === undefined || value === null) return null;
  if (typeof value !== "number" || !Number.isFinite(value)) throw refuse(file, param, value, "a number");
  return value;
}

function positive(file: string, param: string, value: unknown): number | null {
  const read = number(file, param, value);
  if (read !== null && read <= 0) throw refuse(file, param, value, "a positive number");
  return read;
}

function numbers(file: string, param: string, value: unknown): readonly number[] {
  if (!Array.isArray(value) || !value.every((n) => typeof n === "number" && n > 0)) {
    throw refuse(file, param, value ?? "missing", "an array of positive numbers");
  }
  return value;
}

function refuse(file: string, param: string, value: unknown, known: string): FormatError {
  const shown = typeof value === "string" ? value : JSON.stringify(value);
  return new FormatError("unsupported_model_option", { file, param, value: shown.slice(0, 100), known });
}
