// Runs one benchmark of a set and shows what it found as a table, as JSON or as a chart: `pagoda bench KIND`, and the laboratory's
// benches (bench/lab), which are not in the package.

import { writeFile } from "node:fs/promises";
import type { OptionTable } from "../../config/options.js";
import { errorFor } from "../../core/errors.js";
import { suggest } from "../../core/suggest.js";
import { hasHelped, parseFlags } from "../args.js";
import type { Bench } from "./benchmark.js";
import { renderChart } from "./chart-svg.js";
import { describeMachine, machineFacts } from "./machine.js";
import { renderTable } from "./table.js";

export interface BenchSet {
  /** The command line before KIND, without `pagoda`. */
  readonly command: string;
  /** How the command is started, for people who read its usage. */
  readonly program: string;
  readonly benches: Readonly<Record<string, { readonly summary: string; readonly load: () => Promise<Bench> }>>;
}

export const OUTPUT_OPTIONS = {
  json: { type: "boolean", default: false, help: "print the report as JSON" },
  svg: { type: "string", default: null, defaultText: "none", help: "file for a chart" },
} as const satisfies OptionTable;

export async function runBench(
  set: BenchSet,
  args: readonly string[],
  stdout: { write(text: string): unknown },
): Promise<number> {
  const [kind = "--help", ...rest] = args;
  if (kind === "--help" || kind === "-h") {
    stdout.write(usage(set));
    return args.length === 0 ? 2 : 0;
  }
  if (!Object.hasOwn(set.benches, kind))
    throw errorFor("unknown_command", {
      value: `${set.command} ${kind}`,
      known: suggest(kind, Object.keys(set.benches)),
    });
  const entry = set.benches[kind]!;
  const bench = await entry.load();
  const table: OptionTable = { ...OUTPUT_OPTIONS, ...bench.options };
  const parsed = parseFlags(table, rest);
  const least = bench.positionals.length;
  const names = bench.positionals.map((name) => `${name} `).join("");
  const call = { line: `${set.command} ${kind} ${names}[options]`, about: entry.summary };
  if (hasHelped(table, { ...call, words: { least, most: least } }, parsed, stdout)) return 0;
  const { values, positionals } = parsed;
  const { json, svg, ...own } = values;
  const machine = machineFacts();
  const { report, tables, charts, exitCode } = await bench.run(own, positionals);
  if (typeof svg === "string")
    await writeChart(svg, renderChart(`${set.program} ${kind}`, describeMachine(machine), charts));
  if (json === true) stdout.write(`${JSON.stringify({ bench: kind, machine, ...report }, null, 2)}\n`);
  else stdout.write(`${describeMachine(machine)}\n\n${tables.map(renderTable).join("\n")}`);
  return exitCode ?? 0;
}

async function writeChart(file: string, svg: string): Promise<void> {
  try {
    await writeFile(file, svg);
  } catch (error) {
    const expected = `a file that can be written (${(error as NodeJS.ErrnoException).code})`;
    throw errorFor("invalid_option", { param: "--svg", value: file, expected });
  }
}

function usage({ program, benches }: BenchSet): string {
  const lines = Object.entries(benches).map(([name, { summary }]) => `  ${name.padEnd(11)} ${summary}`);
  return `Usage: ${program} KIND [options]\n\n${lines.join("\n")}\n\n${program} KIND --help shows the options of one.\n`;
}
