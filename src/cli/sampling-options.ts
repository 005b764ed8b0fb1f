// The sampling flags of generate and chat, and the way from flags to GenerateOptions.

import { ENGINE_OPTIONS } from "../config/engine-config.js";
import { fromEnvironment, type OptionTable, type OptionValue } from "../config/options.js";
import type { EngineOptions } from "../engine/client/engine.js";
import type { GenerateOptions } from "../engine/types.js";

export const SAMPLING_OPTIONS = {
  maxTokens: {
    type: "integer",
    short: "n",
    min: 1,
    default: null,
    defaultText: "what the context leaves",
    help: "longest answer",
  },
  minTokens: { type: "integer", min: 0, default: 0, help: "shortest answer" },
  temperature: { type: "number", short: "t", min: 0, default: null, defaultText: "the model's", help: "0 is greedy" },
  topK: {
    type: "integer",
    min: 0,
    default: null,
    defaultText: "the model's",
    help: "keep the k most probable tokens; 0 is all",
  },
  topP: {
    type: "number",
    min: 0,
    max: 1,
    default: null,
    defaultText: "the model's",
    help: "keep the most probable tokens up to this mass",
  },
  minP: {
    type: "number",
    min: 0,
    max: 1,
    default: null,
    defaultText: "the model's",
    help: "drop tokens below this share of the best",
  },
  repetitionPenalty: {
    type: "number",
    min: 0.01,
    default: null,
    defaultText: "the model's",
    help: "above 1 discourages repeats",
  },
  presencePenalty: { type: "number", default: 0, help: "subtracted once from tokens already in the answer" },
  frequencyPenalty: { type: "number", default: 0, help: "subtracted for each time a token is in the answer" },
  seed: { type: "integer", default: null, defaultText: "random", help: "the same seed gives the same answer" },
  stop: { type: "list", default: [], help: "strings that end the answer, separated by commas" },
  ignoreEos: { type: "boolean", default: false, help: "go on past the model's own end" },
} as const satisfies OptionTable;

const { seed: _engineSeed, ...ENGINE_FLAGS } = ENGINE_OPTIONS;
/** Flags of every command that runs an engine. --seed is the request's. */
export const RUN_OPTIONS = { ...ENGINE_FLAGS } as const satisfies OptionTable;

type Values = Readonly<Record<string, OptionValue>>;

export function engineOptionsOf(values: Values): EngineOptions {
  return { ...fromEnvironment(RUN_OPTIONS, process.env), ...pick(values, RUN_OPTIONS) } as EngineOptions;
}

export function samplingOf(values: Values): GenerateOptions {
  return pick(values, SAMPLING_OPTIONS) as GenerateOptions;
}

function pick(values: Values, table: OptionTable): Record<string, OptionValue> {
  return Object.fromEntries(Object.entries(values).filter(([key]) => key in table));
}
