// Command-line flags from option tables: typed, validated, with messages that name the right flags.

import {
  defaultText,
  envOf,
  flagOf,
  type OptionRow,
  type OptionTable,
  type OptionValue,
  parseText,
} from "../config/options.js";
import { ConfigError } from "../core/errors.js";
import { suggest } from "../core/suggest.js";

export interface ParsedArgs {
  /** Only what was given. */
  readonly values: Readonly<Record<string, OptionValue>>;
  readonly positionals: readonly string[];
  readonly wantsHelp: boolean;
}

/**
 * `--flag value`, `--flag=value`, `-f value` where an option has a letter; `--flag`, `--no-flag` and `--flag true|false` for
 * booleans; `--` ends the flags, and `-` alone is no flag.
 */
export function parseFlags(table: OptionTable, args: readonly string[]): ParsedArgs {
  const keyOf = new Map(Object.keys(table).map((key) => [flagOf(key), key]));
  for (const [key, { short }] of Object.entries(table)) if (short !== undefined) keyOf.set(`-${short}`, key);
  const values: Record<string, OptionValue> = {};
  const positionals: string[] = [];
  let wantsHelp = false;
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]!;
    if (arg === "--") {
      positionals.push(...args.slice(i + 1));
      break;
    }
    if (arg === "--help" || arg === "-h") wantsHelp = true;
    else if (!isFlag(arg)) positionals.push(arg);
    else {
      const equals = arg.indexOf("=");
      const flag = equals < 0 ? arg : arg.slice(0, equals);
      const negated = flag.startsWith("--no-") ? keyOf.get(`--${flag.slice(5)}`) : undefined;
      const key = keyOf.get(flag) ?? negated;
      if (key === undefined)
        throw new ConfigError("unknown_option", { param: flag, known: suggest(flag, [...keyOf.keys()]) });
      const row = table[key]!;
      if (negated !== undefined && row.type === "boolean") values[key] = false;
      else if (equals >= 0) take(values, key, flag, row, arg.slice(equals + 1));
      else if (row.type === "boolean") {
        const isSpelledOut = BOOLEAN_WORDS.has(args[i + 1]?.toLowerCase() ?? "");
        values[key] = isSpelledOut ? parseText(flag, row, args[++i]!) : true;
      } else {
        const next = args[++i];
        if (next === undefined)
          throw new ConfigError("invalid_option", { param: flag, value: "missing", expected: "followed by a value" });
        take(values, key, flag, row, next);
      }
    }
  }
  return { values, positionals, wantsHelp };
}

/** -5 is a number, not a flag. */
function isFlag(arg: string): boolean {
  return /^--?[^-\d.]/.test(arg);
}

const BOOLEAN_WORDS = new Set(["true", "false", "yes", "no", "on", "off"]);

function take(values: Record<string, OptionValue>, key: string, flag: string, row: OptionRow, text: string): void {
  const value = parseText(flag, row, text);
  const before = values[key];
  values[key] = row.type === "list" && Array.isArray(before) ? [...before, ...(value as readonly string[])] : value;
}

/** Choices longer than this are told in the text, not beside the flag. */
const MAX_CHOICES = 24;
const MAX_LEFT = 38;

/** The help text of a table: each option with its default and environment variable, wrapped to the width of the terminal. */
export function helpOf(table: OptionTable, { showEnv = false, columns = process.stdout.columns ?? 100 } = {}): string {
  const rows = Object.entries(table).map(([key, row]) => {
    const choices = row.choices?.join("|") ?? "";
    const isLong = choices.length > MAX_CHOICES;
    const type = row.type === "boolean" ? "" : row.type === "choice" && !isLong ? choices : row.type.toUpperCase();
    const short = row.short === undefined ? "    " : `-${row.short}, `;
    const help = isLong ? `${row.help}; one of ${row.choices!.join(", ")}` : row.help;
    return {
      left: `  ${short}${flagOf(key)} ${type}`.trimEnd(),
      right: `${help} [${defaultText(row)}]${showEnv ? ` (${envOf(key)})` : ""}`,
    };
  });
  const width = Math.min(MAX_LEFT, Math.max(...rows.map(({ left }) => left.length))) + 2;
  return rows
    .flatMap(({ left, right }) => twoColumns(left, wrap(right, Math.max(40, columns - width)), width))
    .join("\n");
}

/** A left side that is too wide has a line of its own. */
function twoColumns(left: string, right: readonly string[], width: number): string[] {
  const isWide = left.length > width - 2;
  const lines = right.map((line, i) => (i === 0 && !isWide ? left : "").padEnd(width) + line);
  return isWide ? [left, ...lines] : lines;
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line += line === "" ? word : ` ${word}`;
  }
  return [...lines, line];
}
