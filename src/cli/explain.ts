// `pagoda explain`: shows how a set of requests is chunked, batched and laid out in pages, without a model. The command line of
// it; the work is in explain-simulation.ts (the report), explain-text.ts and explain-svg.ts (renderers).

import { writeFile } from "node:fs/promises";
import { type ParseArgsConfig, parseArgs } from "node:util";
import { errorFor, PagodaError } from "../core/errors.js";
import { EXPLAIN_DEFAULTS, type ExplainOptions } from "./explain-report.js";
import { runExplain } from "./explain-simulation.js";
import { renderExplainSvg } from "./explain-svg.js";
import { renderExplain } from "./explain-text.js";

export type { ExplainOptions, ExplainReport } from "./explain-report.js";
export { renderExplain, renderExplainSvg, runExplain };

export interface CommandOption {
  readonly flag: string;
  /** Placeholder of its value; null for a switch. */
  readonly value: string | null;
  readonly description: string;
}

export const EXPLAIN_OPTIONS: readonly CommandOption[] = [
  { flag: "requests", value: "N,N,...", description: `prompt lengths (${EXPLAIN_DEFAULTS.requests.join(",")})` },
  { flag: "decodes", value: "N,N,...", description: "positions of rows that are already decoding (none)" },
  { flag: "page-size", value: "N", description: `tokens per page (${EXPLAIN_DEFAULTS.pageSize})` },
  { flag: "chunk", value: "N", description: `ideal chunk, in tokens (${EXPLAIN_DEFAULTS.chunk})` },
  { flag: "fixed-chunk", value: "N", description: "chunk of the chunked mode it is compared with (as --chunk)" },
  {
    flag: "budget",
    value: "N",
    description: `tokens per batch, a multiple of the page size (${EXPLAIN_DEFAULTS.budget})`,
  },
  { flag: "svg", value: "FILE", description: "draw the timeline and the page map" },
  { flag: "json", value: null, description: "print the report as JSON" },
  { flag: "help", value: null, description: "show this" },
];

/** Where a command writes; `process` fits. */
export interface CommandOutput {
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

/** Runs the command and returns the exit code: 0, or 2 when the arguments are wrong. */
export async function explainCommand(args: readonly string[], io: CommandOutput = process): Promise<number> {
  try {
    const { options, svg, isJson, isHelp } = parseExplainArgs(args);
    if (isHelp) {
      io.stdout.write(explainHelp());
      return 0;
    }
    const report = runExplain(options);
    if (svg !== null) await writeSvg(svg, renderExplainSvg(report));
    io.stdout.write(isJson ? `${JSON.stringify(report, null, 2)}\n` : renderExplain(report));
    return 0;
  } catch (error) {
    if (!(error instanceof PagodaError)) throw error;
    io.stderr.write(`pagoda explain: ${error.message}\n`);
    return 2;
  }
}

async function writeSvg(file: string, svg: string): Promise<void> {
  try {
    await writeFile(file, svg);
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code;
    throw errorFor("invalid_option", {
      param: "--svg",
      value: file,
      expected: `a file that can be written (${reason})`,
    });
  }
}

export function explainHelp(): string {
  const lines = EXPLAIN_OPTIONS.map(({ flag, value, description }) => {
    return `  ${`--${flag}${value === null ? "" : ` ${value}`}`.padEnd(24)}${description}`;
  });
  return ["usage: pagoda explain [options]", "", ...lines, ""].join("\n");
}

interface ExplainArgs {
  readonly options: Partial<ExplainOptions>;
  readonly svg: string | null;
  readonly isJson: boolean;
  readonly isHelp: boolean;
}

export function parseExplainArgs(args: readonly string[]): ExplainArgs {
  const config: NonNullable<ParseArgsConfig["options"]> = {};
  for (const { flag, value } of EXPLAIN_OPTIONS) config[flag] = { type: value === null ? "boolean" : "string" };
  const known = EXPLAIN_OPTIONS.map(({ flag }) => `--${flag}`).join(", ");
  // Not strict: an unknown flag gets the project's own message, which names the right ones.
  const { values, positionals } = parseArgs({
    args: [...args],
    options: config,
    strict: false,
    allowPositionals: true,
  });
  const unknown = Object.keys(values).find((flag) => !(flag in config));
  if (unknown !== undefined) throw errorFor("unknown_option", { param: `--${unknown}`, known });
  if (positionals[0] !== undefined) throw errorFor("unknown_option", { param: positionals[0], known });

  const text = (flag: string): string | null => {
    const value = values[flag];
    if (value === undefined) return null;
    if (typeof value === "string" && value !== "") return value;
    throw errorFor("invalid_option", { param: `--${flag}`, value: "empty", expected: `followed by a value` });
  };
  const numbers = (flag: string): number[] | null => {
    const value = text(flag);
    return value === null ? null : value.split(",").map((part) => numberOf(flag, part));
  };
  const number = (flag: string): number | null => {
    const value = text(flag);
    return value === null ? null : numberOf(flag, value);
  };
  const given = {
    requests: numbers("requests"),
    decodes: numbers("decodes"),
    pageSize: number("page-size"),
    chunk: number("chunk"),
    fixedChunk: number("fixed-chunk"),
    budget: number("budget"),
  };
  return {
    options: Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)) as Partial<ExplainOptions>,
    svg: text("svg"),
    isJson: values.json === true,
    isHelp: values.help === true,
  };
}

function numberOf(flag: string, part: string): number {
  if (/^\s*\d+\s*$/.test(part)) return Number(part);
  throw errorFor("invalid_option", { param: `--${flag}`, value: part, expected: "whole numbers, separated by commas" });
}
