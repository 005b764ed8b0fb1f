// One table row per option: it feeds --help, environment variables, the config file, validation and docs/reference/configuration.md.
// Nothing here knows what an option is for; engine-config.ts and server-config.ts hold the tables.

import { ConfigError } from "../core/errors.js";
import { suggest } from "../core/suggest.js";
import { TEST_VARIABLES, VARIABLES } from "./variables.js";

export type OptionValue = string | number | boolean | readonly string[] | null;

export interface OptionRow {
  /** integer and number check min and max; choice checks choices; list is repeatable on the command line. */
  readonly type: "integer" | "number" | "boolean" | "string" | "choice" | "list";
  readonly default: OptionValue;
  readonly min?: number;
  readonly max?: number;
  readonly choices?: readonly string[];
  /** One letter for the command line: -m for --model. */
  readonly short?: string;
  /** What a choice must match, where the choices name a whole kind of values (cuda:N). */
  readonly pattern?: RegExp;
  /** Shown in place of a null default. */
  readonly defaultText?: string;
  readonly help: string;
}

export type OptionTable = Readonly<Record<string, OptionRow>>;

/** pageSize -> --page-size */
export function flagOf(key: string): string {
  return `--${kebab(key)}`;
}

/** pageSize -> PAGODA_PAGE_SIZE */
export function envOf(key: string): string {
  return `PAGODA_${kebab(key).replaceAll("-", "_").toUpperCase()}`;
}

function kebab(key: string): string {
  return key.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`);
}

/** Layers of values, weakest first: config file, environment, command line or program. Later ones win; null and undefined pass. */
export function resolveOptions<Config>(
  table: OptionTable,
  ...layers: readonly Readonly<Record<string, unknown>>[]
): Readonly<Config> {
  const config: Record<string, OptionValue> = {};
  for (const [key, row] of Object.entries(table)) config[key] = row.default;
  for (const layer of layers) {
    for (const [key, value] of Object.entries(layer)) {
      const row = table[key];
      if (row === undefined)
        throw new ConfigError("unknown_option", { param: key, known: suggest(key, Object.keys(table)) });
      if (value !== undefined && value !== null) config[key] = checkValue(key, row, value);
    }
  }
  return Object.freeze(config) as Readonly<Config>;
}

/** The values that the environment sets, as raw strings turned into the rows' types. */
export function fromEnvironment(table: OptionTable, env: NodeJS.ProcessEnv): Record<string, OptionValue> {
  const found: Record<string, OptionValue> = {};
  for (const [key, row] of Object.entries(table)) {
    const text = env[envOf(key)];
    if (text === undefined) continue;
    // Never taken as "none": an empty key or host would open the server to everybody.
    if (text.trim() === "")
      throw new ConfigError("invalid_option", {
        param: envOf(key),
        value: "empty",
        expected: `${expectation(row)}, or unset`,
      });
    found[key] = parseText(envOf(key), row, text);
  }
  return found;
}

/** Refuses variables that look like options and are none: a misspelt PAGODA_API_KEY would leave the server open. */
export function refuseUnknownVariables(table: OptionTable, env: NodeJS.ProcessEnv): void {
  const known = new Set([...Object.keys(table).map(envOf), ...Object.keys(VARIABLES), ...TEST_VARIABLES]);
  for (const name of Object.keys(env)) {
    if (name.startsWith("PAGODA_") && !known.has(name))
      throw new ConfigError("unknown_option", { param: name, known: suggest(name, [...known]) });
  }
}

/** Turns the text of a flag or variable into the row's type, or throws with what was expected. */
export function parseText(name: string, row: OptionRow, text: string): OptionValue {
  switch (row.type) {
    case "integer":
    case "number":
      return checkValue(name, row, text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text));
    case "boolean":
      if (["1", "true", "yes", "on"].includes(text.toLowerCase())) return true;
      if (["0", "false", "no", "off", ""].includes(text.toLowerCase())) return false;
      return checkValue(name, row, text);
    case "list":
      return checkValue(
        name,
        row,
        text.split(",").map((part) => part.trim()),
      );
    default:
      return checkValue(name, row, text);
  }
}

function checkValue(name: string, row: OptionRow, value: unknown): OptionValue {
  if (!isValid(row, value))
    throw new ConfigError("invalid_option", { param: name, value: show(value), expected: expectation(row) });
  return value as OptionValue;
}

function isValid(row: OptionRow, value: unknown): boolean {
  switch (row.type) {
    case "integer":
    case "number":
      return (
        typeof value === "number" &&
        (row.type === "number" ? Number.isFinite(value) : Number.isSafeInteger(value)) &&
        value >= (row.min ?? Number.NEGATIVE_INFINITY) &&
        value <= (row.max ?? Number.POSITIVE_INFINITY)
      );
    case "boolean":
      return typeof value === "boolean";
    case "string":
      return typeof value === "string" && value !== "";
    case "choice":
      if (row.pattern !== undefined) return typeof value === "string" && row.pattern.test(value);
      return row.choices!.includes(value as string);
    case "list":
      return Array.isArray(value) && value.every((item) => typeof item === "string" && item !== "");
  }
}

function expectation(row: OptionRow): string {
  switch (row.type) {
    case "integer":
    case "number": {
      const kind = row.type === "integer" ? "a whole number" : "a number";
      if (row.min !== undefined && row.max !== undefined) return `${kind} from ${row.min} to ${row.max}`;
      if (row.min !== undefined) return `${kind} of at least ${row.min}`;
      return row.max === undefined ? kind : `${kind} of at most ${row.max}`;
    }
    case "boolean":
      return "true or false";
    case "choice":
      return `one of ${row.choices!.join(", ")}`;
    case "list":
      return "a list of non-empty strings";
    case "string":
      return "a non-empty string";
  }
}

function show(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

/** The default as people read it. */
export function defaultText(row: OptionRow): string {
  if (row.defaultText !== undefined) return row.defaultText;
  if (Array.isArray(row.default)) return row.default.join(",") || "none";
  return String(row.default);
}
