// The sampling flags of generate and chat, and the way from flags to GenerateOptions.

import { ENGINE_OPTIONS } from "../config/engine-config.js";
import { fromEnvironment, type OptionRow, type OptionTable, type OptionValue } from "../config/options.js";
import { SAMPLING, type SamplingParam } from "../core/sampling.js";
import type { EngineOptions } from "../engine/client/engine.js";
import type { Engine, GenerateOptions } from "../engine/types.js";

const FLAG_TYPE = { number: "number", integer: "integer", boolean: "boolean", strings: "list" } as const;

/** The parameters of core/sampling.ts that are flags. What is not given is left to the model and the engine. */
export const SAMPLING_OPTIONS: OptionTable = Object.fromEntries(
  Object.entries(SAMPLING as Record<string, SamplingParam>)
    .filter(([, { isFlag }]) => isFlag)
    .map(([key, param]) => [key, flagRow(param)]),
);

function flagRow({ type, short, min, max, default: value, defaultText, help }: SamplingParam): OptionRow {
  const isList = type === "strings";
  return {
    type: FLAG_TYPE[type as keyof typeof FLAG_TYPE],
    ...(short === undefined ? {} : { short }),
    ...(min === undefined || isList ? {} : { min }),
    ...(max === undefined || isList ? {} : { max }),
    ...(defaultText === undefined ? { default: value as OptionValue } : { default: null, defaultText }),
    help: isList ? `${help}, separated by commas` : help,
  };
}

const { seed: _engineSeed, ...ENGINE_FLAGS } = ENGINE_OPTIONS;
/** Flags of every command that runs an engine. --seed is the request's. */
export const RUN_OPTIONS = { ...ENGINE_FLAGS } as const satisfies OptionTable;

type Values = Readonly<Record<string, OptionValue>>;

export function engineOptionsOf(values: Values): EngineOptions {
  // What is asked for once is not warmed up for.
  return { warmup: false, ...fromEnvironment(RUN_OPTIONS, process.env), ...pick(values, RUN_OPTIONS) } as EngineOptions;
}

export function samplingOf(values: Values): GenerateOptions {
  return pick(values, SAMPLING_OPTIONS) as GenerateOptions;
}

/** The first adapter that was given answers. */
export function adapterOf({ adapters: [first] }: Pick<Engine, "adapters">): GenerateOptions {
  return first === undefined ? {} : { adapter: first.name };
}

function pick(values: Values, table: OptionTable): Record<string, OptionValue> {
  return Object.fromEntries(Object.entries(values).filter(([key]) => key in table));
}
