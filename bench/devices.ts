// Devices beside each other in one process, in turns, so that a machine whose speed changes by the minute does the same to all of them:
// decode of one token and a prompt of 32 tokens of the bundled model.
//   node dist/bench/devices.js [--rounds 10] [--threads 2] [--quantize bf16,q8,q4] [--model MODEL] [DEVICE...]
//     DEVICE: wasm, avx2 (or another PAGODA_CPU_ISA), reference; wasm:FILE is a module of one's own. By default wasm avx2 reference.
// A turn is one prompt and 16 decode steps (the reference device: 4, and every second turn). Milliseconds by the clock, the lowest and
// (the median); "x" is the speed beside that of the last device.

import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { CoreRunner } from "../src/cli/bench/core-runner.js";
import { median } from "../src/cli/bench/statistics.js";
import { digits, renderTable } from "../src/cli/bench/table.js";
import { OpTimes } from "../src/cli/bench/timed-device.js";
import { engineConfig } from "../src/config/engine-config.js";
import type { Device } from "../src/device/device.js";
import { availableMemory } from "../src/device/host.js";
import { nodeWasmHost } from "../src/device/wasm/node-host.js";
import { WasmDevice } from "../src/device/wasm/wasm-device.js";
import { openDevice } from "../src/engine/core/load/devices.js";
import { loadEngine } from "../src/engine/core/load/load.js";
import { resolveModel } from "../src/formats/hub/hub.js";

const PREFILL = 32;
const CONTEXT = 64;
const STEPS = 16;
const REFERENCE_STEPS = 4;
const WARMUP_STEPS = 96; // V8 has compiled the kernels a second time by then

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "10" },
    threads: { type: "string", default: String(availableParallelism()) },
    quantize: { type: "string", default: "bf16,q8,q4" },
    model: { type: "string" },
  },
});
const threads = Number(options.threads);
const names = positionals.length > 0 ? positionals : ["wasm", "avx2", "reference"];

interface Runner {
  readonly name: string;
  readonly isReference: boolean;
  readonly runner: CoreRunner;
  readonly decodeMs: number[];
  readonly prefillMs: number[];
}

async function openNamed(name: string): Promise<Device> {
  if (name === "reference" || name === "wasm") return openDevice({ device: name, threads });
  if (name.startsWith("wasm:")) {
    const compile = async () => WebAssembly.compile(await readFile(name.slice("wasm:".length)));
    return WasmDevice.open({ ...nodeWasmHost, compile }, { threads, availableMemory });
  }
  process.env.PAGODA_CPU_ISA = name;
  return openDevice({ device: "cpu", threads });
}

async function load(name: string, quantize: string): Promise<Runner> {
  const isReference = name === "reference";
  const config = engineConfig({
    speculative: "off",
    device: isReference ? "reference" : name.startsWith("wasm") ? "wasm" : "cpu",
    ...(quantize === "bf16" ? {} : { quantize: quantize as "q8" | "q4" }),
    ...(options.model === undefined ? {} : { model: options.model }),
    threads,
  });
  const located = { ...config, model: await resolveModel(config.model) };
  const { core, facts } = await loadEngine(
    located,
    () => {},
    () => openNamed(name),
  );
  const runner = new CoreRunner(core, facts.vocabSize, 1, new OpTimes());
  runner.prefill(PREFILL);
  runner.decode(1, CONTEXT, isReference ? REFERENCE_STEPS : WARMUP_STEPS);
  return { name, isReference, runner, decodeMs: [], prefillMs: [] };
}

function takeTurn({ runner, isReference, decodeMs, prefillMs }: Runner): void {
  prefillMs.push(runner.prefill(PREFILL).stepMs.reduce((sum, ms) => sum + ms, 0));
  decodeMs.push(...runner.decode(1, CONTEXT, isReference ? REFERENCE_STEPS : STEPS).stepMs);
}

function rowsOf(quantize: string, runners: readonly Runner[]): string[][] {
  const last = runners.at(-1)!;
  const pair = (ms: readonly number[]) => `${digits(Math.min(...ms))} (${digits(median(ms))})`;
  const times = (ms: readonly number[], base: readonly number[]) =>
    `${digits(Math.min(...base) / Math.min(...ms))} (${digits(median(base) / median(ms))})`;
  return runners.map((run) => [
    ...[quantize, run.name.split("/").at(-1)!],
    ...[pair(run.decodeMs), times(run.decodeMs, last.decodeMs)],
    ...[pair(run.prefillMs), times(run.prefillMs, last.prefillMs)],
  ]);
}

const rows: string[][] = [];
for (const quantize of options.quantize.split(",")) {
  const runners: Runner[] = [];
  for (const name of names) runners.push(await load(name, quantize));
  for (let round = 0; round < Number(options.rounds); round++)
    for (const run of runners) if (!run.isReference || round % 2 === 0) takeTurn(run);
  rows.push(...rowsOf(quantize, runners));
}
process.stdout.write(
  renderTable({
    caption: `${threads} threads, Node ${process.versions.node}, ${options.rounds} turns, ms: lowest (median)`,
    head: ["weights", "device", "decode of 1", "x", `prefill of ${PREFILL}`, "x"],
    rows,
  }),
);
process.exit(0); // the devices' threads
