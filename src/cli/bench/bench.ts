// `pagoda bench KIND`: runs one benchmark and shows what it found as a table, as JSON or as a chart. The benchmarks are in files
// of their own; here is what they have in common.

import { writeFile } from "node:fs/promises";
import type { OptionTable } from "../../config/options.js";
import { errorFor } from "../../core/errors.js";
import { suggest } from "../../core/suggest.js";
import { hasHelped, parseFlags } from "../args.js";
import type { Bench } from "./benchmark.js";
import { renderChart } from "./chart-svg.js";
import { describeMachine, machineFacts } from "./machine.js";
import { renderTable } from "./table.js";

const BENCHES: Readonly<Record<string, { readonly summary: string; readonly load: () => Promise<Bench> }>> = {
  throughput: {
    summary: "tokens per second with all requests at hand",
    load: async () => (await import("./throughput.js")).throughputBench,
  },
  latency: {
    summary: "prefill and decode at given batch sizes, and where a step's time goes",
    load: async () => (await import("./latency.js")).latencyBench,
  },
  serve: {
    summary: "requests that arrive over time at any OpenAI-compatible server",
    load: async () => (await import("./serve.js")).serveBench,
  },
  modes: {
    summary: "the extend mode against the chunked mode on one trace",
    load: async () => (await import("./modes.js")).modesBench,
  },
  speculation: {
    summary: "tokens guessed ahead against none, on a text file or a trace",
    load: async () => (await import("./speculation.js")).speculationBench,
  },
  attention: {
    summary: "attention over pages against this machine's peak",
    load: async () => (await import("./attention.js")).attentionBench,
  },
  recurrent: {
    summary: "kernels of recurrent layers against this machine's peak",
    load: async () => (await import("./recurrent.js")).recurrentBench,
  },
  matmul: {
    summary: "matrix products against this machine's peak",
    load: async () => (await import("./matmul.js")).matmulBench,
  },
};

const OUTPUT_OPTIONS = {
  json: { type: "boolean", default: false, help: "print the report as JSON" },
  svg: { type: "string", default: null, defaultText: "none", help: "file for a chart" },
} as const satisfies OptionTable;

/** The options of every benchmark together, for completion. */
export async function benchOptions(): Promise<OptionTable> {
  const benches = await Promise.all(Object.values(BENCHES).map(({ load }) => load()));
  return Object.assign({}, OUTPUT_OPTIONS, ...benches.map(({ options }) => options)) as OptionTable;
}

export const BENCH_NAMES: readonly string[] = Object.keys(BENCHES);

export async function benchCommand(
  args: readonly string[],
  stdout: { write(text: string): unknown } = process.stdout,
): Promise<number> {
  const [kind = "--help", ...rest] = args;
  if (kind === "--help" || kind === "-h") {
    stdout.write(usage());
    return args.length === 0 ? 2 : 0;
  }
  if (!Object.hasOwn(BENCHES, kind))
    throw errorFor("unknown_command", { value: `bench ${kind}`, known: suggest(kind, BENCH_NAMES) });
  const entry = BENCHES[kind]!;
  const bench = await entry.load();
  const table: OptionTable = { ...OUTPUT_OPTIONS, ...bench.options };
  const parsed = parseFlags(table, rest);
  const least = bench.positionals.length;
  const names = bench.positionals.map((name) => `${name} `).join("");
  const call = { line: `bench ${kind} ${names}[options]`, about: entry.summary };
  if (hasHelped(table, { ...call, words: { least, most: least } }, parsed, stdout)) return 0;
  const { values, positionals } = parsed;
  const { json, svg, ...own } = values;
  const machine = machineFacts();
  const { report, tables, charts, exitCode } = await bench.run(own, positionals);
  if (typeof svg === "string")
    await writeChart(svg, renderChart(`pagoda bench ${kind}`, describeMachine(machine), charts));
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

function usage(): string {
  const lines = Object.entries(BENCHES).map(([name, { summary }]) => `  ${name.padEnd(11)} ${summary}`);
  return `Usage: pagoda bench KIND [options]\n\n${lines.join("\n")}\n\npagoda bench KIND --help shows the options of one.\n`;
}
