// What a benchmark is to the command that runs it.

import { type OptionTable, type OptionValue, resolveOptions } from "../../config/options.js";
import { errorFor } from "../../core/errors.js";
import type { EngineOptions } from "../../engine/client/engine.js";
import { engineOptionsOf } from "../sampling-options.js";
import type { Chart } from "./chart-svg.js";
import type { Table } from "./table.js";

export type Values = Readonly<Record<string, OptionValue>>;

export interface Bench {
  /** Names of what comes before the options, such as URL. */
  readonly positionals: readonly string[];
  readonly options: OptionTable;
  run(values: Values, positionals: readonly string[]): Promise<BenchResult>;
}

export interface BenchResult {
  /** Plain data, for --json. */
  readonly report: Readonly<Record<string, unknown>>;
  readonly tables: readonly Table[];
  readonly charts: readonly Chart[];
  /** 0 unless given. */
  readonly exitCode?: number;
}

/** Splits the values given into the benchmark's own (with defaults) and the engine's. */
export function splitValues<Own>(own: OptionTable, values: Values): { own: Readonly<Own>; engine: EngineOptions } {
  const mine = Object.fromEntries(Object.entries(values).filter(([key]) => key in own));
  const others = Object.fromEntries(Object.entries(values).filter(([key]) => !(key in own)));
  return { own: resolveOptions<Own>(own, mine), engine: engineOptionsOf(others) };
}

/** Fields given as JSON. */
export function objectOf(flag: string, text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Refused below.
  }
  throw errorFor("invalid_option", { param: flag, value: text, expected: "a JSON object" });
}

/** A count, or the ends of a range of them. */
export interface Range {
  readonly min: number;
  readonly max: number;
}

/** "128" or "16-512". */
export function rangeOf(flag: string, text: string): Range {
  const [, from, to] = /^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$/.exec(text) ?? [];
  const range = { min: Number(from), max: Number(to ?? from) };
  if (from !== undefined && range.min >= 1 && range.min <= range.max) return range;
  throw errorFor("invalid_option", {
    param: flag,
    value: text,
    expected: "a count such as 128 or a range such as 16-512",
  });
}

/** Whole numbers of at least one. */
export function countsOf(flag: string, parts: readonly string[]): number[] {
  return parts.map((part) => {
    if (/^\s*[1-9]\d*\s*$/.test(part)) return Number(part);
    const expected = "whole numbers of at least 1, separated by commas";
    throw errorFor("invalid_option", { param: flag, value: part, expected });
  });
}
