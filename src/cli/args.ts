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
import { wrap } from "./terminal.js";

export interface ParsedArgs {
  /** Only what was given. */
  readonly values: Readonly<Record<string, OptionValue>>;
  readonly positionals: readonly string[];
  readonly wantsHelp: boolean;
  /** Of every option, not of the common ones alone. */
  readonly wantsAllHelp: boolean;
}

/** How a command is called, for its help and for what is wrong with a call of it. */
export interface Usage {
  /** What follows `pagoda`: "serve [MODEL...] [options]". */
  readonly line: string;
  /** What it does, where that needs saying. */
  readonly about?: string;
  readonly examples?: readonly string[];
  /** The options that --help shows first, and alone where there are many others. Absent: it shows all. */
  readonly common?: readonly string[];
  /** Titles of the others' groups. */
  readonly groups?: Readonly<Record<string, OptionTable>>;
  readonly showEnv?: boolean;
  /** How many words may stand beside the options. */
  readonly words?: { readonly least?: number; readonly most?: number };
}

/** Prints the help where it is asked for, and then says true; refuses words that the command has no place for, or that it lacks. */
export function hasHelped(
  table: OptionTable,
  usage: Usage,
  { positionals, wantsHelp, wantsAllHelp }: Pick<ParsedArgs, "positionals" | "wantsHelp" | "wantsAllHelp">,
  stdout: { write(text: string): unknown } = process.stdout,
): boolean {
  if (wantsHelp) {
    stdout.write(helpPage(table, usage, wantsAllHelp));
    return true;
  }
  const { least = 0, most = 0 } = usage.words ?? {};
  if (positionals.length < least)
    throw new ConfigError("wrong_usage", {
      reason: `${missingWord(usage.line, least - positionals.length)} is missing.`,
      usage: usage.line,
    });
  if (positionals.length > most)
    throw new ConfigError("wrong_usage", { reason: `There is no place for ${positionals[most]}.`, usage: usage.line });
  return false;
}

/** "pull ORG/NAME [options]" lacks ORG/NAME: of the words before the options, those at the end are the user's. */
function missingWord(line: string, numMissing: number): string {
  const words = line.split(/ [[-]/, 1)[0]!.split(" ");
  return words.at(-numMissing)!;
}

function helpPage(table: OptionTable, usage: Usage, isWhole: boolean): string {
  const { line, about, examples = [], common, groups = {}, showEnv = false } = usage;
  const isCommon = (key: string): boolean => common?.includes(key) ?? true;
  const rowsOf = (keys: readonly string[]): OptionTable => Object.fromEntries(keys.map((key) => [key, table[key]!]));
  const first = common ?? Object.keys(table);
  const parts = [`Usage: pagoda ${line}`, ...(about === undefined ? [] : [about])];
  if (examples.length > 0) parts.push(examples.map((example) => `  ${example}`).join("\n"));
  parts.push(helpOf(rowsOf(first), { showEnv }));
  if (common === undefined) return `${parts.join("\n\n")}\n`;
  const numOthers = Object.keys(table).length - first.length;
  if (!isWhole) return `${[...parts, `--help-all shows ${numOthers} more options.`].join("\n\n")}\n`;
  for (const [title, group] of Object.entries(groups)) {
    const keys = Object.keys(group).filter((key) => key in table && !isCommon(key));
    if (keys.length > 0) parts.push(`${title}:\n${helpOf(rowsOf(keys), { showEnv })}`);
  }
  return `${parts.join("\n\n")}\n`;
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
  let wantsAllHelp = false;
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]!;
    if (arg === "--") {
      positionals.push(...args.slice(i + 1));
      break;
    }
    if (arg === "--help" || arg === "-h" || arg === "--help-all") {
      wantsHelp = true;
      wantsAllHelp ||= arg === "--help-all";
    } else if (!isFlag(arg)) positionals.push(arg);
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
        if (next === undefined || keyOf.has(next.split("=", 1)[0]!))
          throw new ConfigError("invalid_option", { param: flag, value: "missing", expected: "followed by a value" });
        take(values, key, flag, row, next);
      }
    }
  }
  return { values, positionals, wantsHelp, wantsAllHelp };
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
    const isOn = row.type === "boolean" && row.default === true; // what one would type is the other
    const flag = isOn ? flagOf(key).replace("--", "--no-") : flagOf(key);
    const by = isOn ? "on" : defaultText(row);
    return {
      left: `  ${short}${flag} ${type}`.trimEnd(),
      right: `${help} [${by}]${showEnv ? ` (${envOf(key)})` : ""}`,
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
