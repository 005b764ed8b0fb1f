// Speculation as people ask for it: an object of its own, by Pagoda's names or by those of vLLM's --speculative-config, becomes the plain
// options of an engine.

import { ConfigError } from "../core/errors.js";
import { SPECULATION_METHODS, type SpeculationMethod } from "../core/speculation.js";
import { suggest } from "../core/suggest.js";

/** How an engine guesses tokens ahead (docs/guide/speculation.md); what is left out has its default. */
export interface SpeculativeConfig {
  /** auto: draft where there is a model, else suffix where it pays; ngram: from the request's own tokens; suffix: also from earlier answers of the same client; mtp: from a head of the checkpoint; eagle3, draft: from `model`; off. */
  readonly method?: SpeculationMethod;
  /** The smaller model or EAGLE-3 head: folder, .gguf file, or model of the hub. */
  readonly model?: string;
  /** Guesses that a step may try for one answer, at most. */
  readonly tokens?: number;
  /** Tokens that must agree with earlier ones before anything is guessed. */
  readonly minMatch?: number;
  /** Tokens that are compared, at most. */
  readonly maxMatch?: number;
  /** Tokens of earlier answers that are kept for each client. */
  readonly history?: number;
}

type Reader = (value: unknown) => Readonly<Record<string, unknown>>;

const as =
  (option: string): Reader =>
  (value) => ({ [option]: value });
/** The length of guesses follows from how often they were right, so these have nothing to decide. */
const nothing: Reader = () => ({});

/** Most guesses of a step: the field's other names may ask for more, and get as many. */
const MAX_TOKENS = 15;
const capped: Reader = (value) => ({
  speculativeTokens: typeof value === "number" ? Math.min(value, MAX_TOKENS) : value,
});

const FIELDS: Readonly<Record<string, Reader>> = {
  method: (value) => ({ speculative: methodOf(value) }),
  tokens: as("speculativeTokens"),
  minMatch: as("speculativeMinMatch"),
  maxMatch: as("speculativeMaxMatch"),
  history: as("speculativeHistory"),
  // vLLM's
  num_speculative_tokens: capped,
  prompt_lookup_min: as("speculativeMinMatch"),
  prompt_lookup_max: as("speculativeMaxMatch"),
  suffix_decoding_max_tree_depth: as("speculativeMaxMatch"),
  suffix_decoding_max_cached_requests: (value) => (value === 0 ? { speculativeHistory: 0 } : {}),
  suffix_decoding_max_spec_factor: nothing,
  suffix_decoding_min_token_prob: nothing,
  disable_by_batch_size: nothing,
  // "[ngram]" is a method; anything else is a model.
  model: (value) => {
    const method = /^\[(.*)\]$/.exec(String(value))?.[1];
    return method === undefined ? { draftModel: value } : { speculative: methodOf(method) };
  },
  draft_tensor_parallel_size: nothing,
};

/** A layer of options with `speculative` and `speculativeConfig` spelled out. */
export function withSpeculation(layer: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { speculative, speculativeConfig, ...rest } = layer;
  if (typeof speculative === "object" && speculative !== null) return { ...rest, ...fieldsOf(speculative) };
  if (typeof speculativeConfig === "string")
    return { ...rest, ...given({ speculative }), ...fieldsOf(parse(speculativeConfig)) };
  return layer;
}

function fieldsOf(asked: object): Record<string, unknown> {
  const options: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(asked)) {
    const read = Object.hasOwn(FIELDS, name) ? FIELDS[name] : undefined;
    if (read === undefined) {
      const known = suggest(name, Object.keys(FIELDS));
      throw new ConfigError("unknown_option", { param: `speculative.${name}`, known });
    }
    if (value !== undefined && value !== null) Object.assign(options, read(value));
  }
  return options;
}

/** vLLM's names of methods that are called otherwise here. */
const METHODS: Readonly<Record<string, SpeculationMethod>> = { draft_model: "draft" };
/** One for each family that has such heads: deepseek_mtp, glm4_moe_mtp, qwen3_next_mtp, ernie_mtp, ... */
const MTP = /_mtp$/;

function methodOf(name: unknown): unknown {
  const value =
    typeof name !== "string" ? name : MTP.test(name) ? "mtp" : Object.hasOwn(METHODS, name) ? METHODS[name] : name;
  if ((SPECULATION_METHODS as readonly unknown[]).includes(value)) return value;
  throw new ConfigError("invalid_option", {
    param: "speculative.method",
    value: JSON.stringify(value),
    expected: `one of ${SPECULATION_METHODS.join(", ")}`,
  });
}

function parse(text: string): object {
  let value: unknown = null;
  try {
    value = JSON.parse(text);
  } catch {}
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw new ConfigError("invalid_option", {
    param: "speculativeConfig",
    value: JSON.stringify(text),
    expected: 'a JSON object such as {"method": "ngram", "num_speculative_tokens": 5}',
  });
}

function given(options: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
