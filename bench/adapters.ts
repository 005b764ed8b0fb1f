// What adapters cost a decode step: rows with none, with one adapter for all, and with as many different ones as there are, taking turns in
// one run. Prints tokens per second and processor time per step, and the ratios to those without.
//   node dist/bench/adapters.js MODEL [--device cpu] [--threads 2] [--rows 8] [--adapters 8] [--rank 16] [--context 128] [--steps 48] [--rounds 5]
// MODEL is a Llama of bench/make-checkpoint.ts; its adapters, at all seven projections of each layer, are made beside it for the run.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { engineConfig } from "../src/config/engine-config.js";
import { SAMPLING_DEFAULTS } from "../src/core/sampling.js";
import { openCheckpoint } from "../src/engine/checkpoint.js";
import { type LoadedEngine, loadEngine } from "../src/engine/core/load/load.js";
import { type SafetensorsEntry, writeSafetensors } from "../test/support/safetensors-writer.js";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    device: { type: "string", default: "cpu" },
    rows: { type: "string", default: "8" },
    adapters: { type: "string", default: "8" },
    rank: { type: "string", default: "16" },
    context: { type: "string", default: "128" },
    steps: { type: "string", default: "48" },
    rounds: { type: "string", default: "5" },
    threads: { type: "string" },
  },
});
const [model = ""] = positionals;
const [numRows, numAdapters, rank, context, steps, rounds] = [
  values.rows,
  values.adapters,
  values.rank,
  values.context,
  values.steps,
  values.rounds,
].map(Number) as [number, number, number, number, number, number];
/** Steps before the clock starts: prompts, and graphs of the sizes that come. */
const WARM_TOKENS = 8;

const folder = mkdtempSync(join(tmpdir(), "pagoda-bench-adapters-"));
try {
  const paths = makeAdapters(folder, openCheckpoint(model).config);
  const config = engineConfig({
    model,
    device: values.device,
    ...(values.threads === undefined ? {} : { threads: Number(values.threads) }),
    speculative: "off",
    prefixCaching: false,
    adapterMemory: 16384,
  });
  const engine = await loadEngine(config, () => {});
  const cases: Record<string, (row: number) => number> = {
    "no adapter": () => -1,
    "one adapter for all rows": () => 0,
    [`${numAdapters} adapters`]: (row) => row % numAdapters,
  };
  const found = new Map<string, Measured[]>();
  for (let round = -1; round < rounds; round++) {
    for (const [name, adapterOf] of Object.entries(cases)) {
      const rate = await measure(engine, adapterOf, paths);
      if (round >= 0) found.set(name, [...(found.get(name) ?? []), rate]); // the first round warms up
    }
  }
  const base = found.get("no adapter")!;
  const percent = (ratio: number): string => `${(100 * ratio).toFixed(1)} %`;
  const spread = (ratios: number[]): string =>
    `${percent(median(ratios))} (${percent(Math.min(...ratios))} to ${percent(Math.max(...ratios))})`;
  console.log(
    `${model} on ${values.device}: ${numRows} rows, rank ${rank}, context ${context}, ${rounds} rounds of ${steps} steps`,
  );
  for (const [name, runs] of found) {
    const rate = median(runs.map((run) => run.tokensPerSecond)).toFixed(1);
    const busy = median(runs.map((run) => run.busyMs)).toFixed(1);
    const byTime = spread(runs.map((run, i) => run.tokensPerSecond / base[i]!.tokensPerSecond));
    const byWork = spread(runs.map((run, i) => base[i]!.busyMs / run.busyMs));
    console.log(`${name.padEnd(26)} ${rate.padStart(9)} tok/s   ${byTime}`);
    console.log(`${"".padEnd(26)} ${busy.padStart(9)} ms of processors a step   ${byWork}`);
  }
  engine.core.close();
} finally {
  rmSync(folder, { recursive: true });
}

interface Measured {
  readonly tokensPerSecond: number;
  /** Processor time of a step, all threads. */
  readonly busyMs: number;
}

/** Steps in which every row decodes. */
async function measure(
  { core, adapters, facts }: LoadedEngine,
  adapterOf: (row: number) => number,
  paths: readonly string[],
): Promise<Measured> {
  for (let row = 0; row < numRows; row++) {
    const own = adapterOf(row);
    const ref = { name: `a${own}`, path: paths[own]!, scale: 1, isPinned: true };
    const held = own < 0 ? null : await adapters.acquire(ref);
    const prompt = Int32Array.from({ length: context }, (_, i) => (i * 31 + row * 7) % facts.vocabSize);
    const maxTokens = WARM_TOKENS + 1 + steps;
    const sampling = { ...SAMPLING_DEFAULTS, temperature: 0, ignoreEos: true, seed: 0, maxTokens };
    const message = {
      type: "add",
      callId: `r${row}`,
      kind: "generate",
      constraint: null,
      priority: 0,
      salt: "",
    } as const;
    core.add({ ...message, prompt, sampling, arrivalMs: 0 }, null, held);
  }
  // Of the steps in which every row decodes, the one in the middle: other work on the machine comes and goes.
  const wall: number[] = [];
  const busy: number[] = [];
  let tokens = core.stats().generatedTokens;
  while (core.hasWork) {
    const [began, busyBegan] = [performance.now(), processorMs()];
    core.step();
    core.takeOutputs();
    const before = tokens;
    tokens = core.stats().generatedTokens;
    if (tokens - before !== numRows) continue;
    wall.push(performance.now() - began);
    busy.push(processorMs() - busyBegan);
  }
  const counted = (of: readonly number[]): number => median(of.slice(WARM_TOKENS));
  return { tokensPerSecond: (1000 * numRows) / counted(wall), busyMs: counted(busy) };
}

function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function median(of: readonly number[]): number {
  return [...of].sort((a, b) => a - b)[of.length >> 1]!;
}

/** Folders of adapters in bf16, of numbers of no meaning. */
function makeAdapters(parent: string, config: Record<string, unknown>): string[] {
  const sizeOf = (field: string): number => config[field] as number;
  const [hidden, ffn, heads] = [sizeOf("hidden_size"), sizeOf("intermediate_size"), sizeOf("num_attention_heads")];
  const kv = (hidden / heads) * sizeOf("num_key_value_heads");
  const shapes: Record<string, readonly [outputs: number, inputs: number]> = {
    "self_attn.q_proj": [hidden, hidden],
    "self_attn.k_proj": [kv, hidden],
    "self_attn.v_proj": [kv, hidden],
    "self_attn.o_proj": [hidden, hidden],
    "mlp.gate_proj": [ffn, hidden],
    "mlp.up_proj": [ffn, hidden],
    "mlp.down_proj": [hidden, ffn],
  };
  // Around 0.01, of both signs.
  const numbers = Uint16Array.from(
    { length: 2 ** 20 },
    (_, i) => 0x3c00 + ((i * 40503) % 0x80) + ((i * 7) % 3 === 0 ? 0x8000 : 0),
  );
  return Array.from({ length: numAdapters }, (_, a) => {
    const path = join(parent, `a${a}`);
    mkdirSync(path);
    const json = { peft_type: "LORA", r: rank, lora_alpha: rank, target_modules: null };
    writeFileSync(join(path, "adapter_config.json"), JSON.stringify(json));
    const tensors = new Map<string, SafetensorsEntry>();
    const add = (name: string, shape: readonly [number, number]): void => {
      const from = (a * 977 + tensors.size * 131) % 4096;
      const data = numbers.subarray(from, from + shape[0] * shape[1]);
      tensors.set(`base_model.model.${name}.weight`, { dtype: "BF16", shape, data });
    };
    for (let layer = 0; layer < sizeOf("num_hidden_layers"); layer++) {
      for (const [module, [outputs, inputs]] of Object.entries(shapes)) {
        add(`model.layers.${layer}.${module}.lora_A`, [rank, inputs]);
        add(`model.layers.${layer}.${module}.lora_B`, [outputs, rank]);
      }
    }
    writeSafetensors(join(path, "adapter_model.safetensors"), tensors);
    return path;
  });
}
