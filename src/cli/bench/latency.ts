// `pagoda bench latency`: one prompt's prefill, and decode steps at given numbers of rows, measured on the engine's core without
// threads or text between. With --profile it also says how much of a step is spent in the device, op by op: what remains is the
// cost of the loop itself.

import { engineConfig } from "../../config/engine-config.js";
import type { OptionTable } from "../../config/options.js";
import { openDevice } from "../../engine/core/load/devices.js";
import { loadEngine } from "../../engine/core/load/load.js";
import { resolveModel } from "../../formats/hub/hub.js";
import { RUN_OPTIONS } from "../sampling-options.js";
import { type Bench, countsOf, objectOf, splitValues } from "./benchmark.js";
import { CoreRunner, type Profile, type StepsRun } from "./core-runner.js";
import { BenchProgress, withLoadProgress } from "./progress.js";
import { median } from "./statistics.js";
import type { Table } from "./table.js";
import { OpTimes, timedDevice } from "./timed-device.js";

const OWN = {
  prefill: { type: "list", default: ["512"], help: "prompt lengths: N,N,..." },
  batch: { type: "list", default: ["1", "8", "32"], help: "rows of a decode step: N,N,..." },
  context: { type: "integer", min: 1, default: 128, help: "tokens each decoding row has behind it" },
  steps: { type: "integer", min: 1, default: 24, help: "decode steps of each run" },
  repeat: {
    type: "integer",
    min: 1,
    default: 5,
    help: "runs of each kind in turns, after a warm-up; medians are shown",
  },
  warmupSteps: {
    type: "integer",
    min: 0,
    default: 96,
    help: "decode steps before those that count, for each number of rows",
  },
  profile: { type: "boolean", default: false, help: "time every op, to see where a step goes" },
  sampling: { type: "string", default: "{}", help: 'how tokens are drawn, as JSON: {"temperature":1,"topK":20}' },
  seed: { type: "integer", min: 0, default: 1, help: "the same seed gives the same prompts" },
} as const satisfies OptionTable;

interface Own {
  readonly prefill: readonly string[];
  readonly batch: readonly string[];
  readonly context: number;
  readonly steps: number;
  readonly repeat: number;
  readonly warmupSteps: number;
  readonly profile: boolean;
  readonly sampling: string;
  readonly seed: number;
}

const { worker: _worker, mode: _mode, ...engineFlags } = RUN_OPTIONS;
export const ENGINE_FLAGS: OptionTable = engineFlags;

export const latencyBench: Bench = {
  positionals: [],
  options: { ...OWN, ...ENGINE_FLAGS },
  async run(values) {
    const { own, engine: options } = splitValues<Own>(OWN, values);
    const lengths = countsOf("--prefill", own.prefill);
    const batches = countsOf("--batch", own.batch);
    // Models with random weights repeat themselves, so that rows would try guesses: a step is of one token a row unless asked otherwise.
    const config = engineConfig({ speculative: "off", ...options });
    const path = await resolveModel(config.model);
    const times = new OpTimes();
    const { core, facts } = await withLoadProgress((onProgress) =>
      loadEngine({ ...config, model: path }, onProgress, async (chosen) => {
        const device = await openDevice(chosen);
        return own.profile ? timedDevice(device, times) : device;
      }),
    );
    const runner = new CoreRunner(core, facts.vocabSize, own.seed, times, objectOf("--sampling", own.sampling));
    const progress = new BenchProgress("latency", own.repeat * (lengths.length + batches.length));
    for (const length of lengths) runner.prefill(length);
    // The loop itself still runs uncompiled at first, and weights are not in huge pages yet: a server leaves that behind in seconds.
    for (const rows of batches) runner.decode(rows, own.context, own.warmupSteps);
    const prefills = lengths.map((): StepsRun[] => []);
    const decodes = batches.map((): StepsRun[] => []);
    for (let i = 0; i < own.repeat; i++) {
      for (const [l, length] of lengths.entries()) {
        prefills[l]!.push(runner.prefill(length));
        progress.advance(`prefill ${length}`);
      }
      for (const [b, rows] of batches.entries()) {
        decodes[b]!.push(runner.decode(rows, own.context, own.steps));
        progress.advance(`decode of ${rows}`);
      }
    }
    progress.end();
    const { model } = core.stats();
    core.close();
    const prefill = lengths.map((length, l) => {
      const runsMs = prefills[l]!.map(({ stepMs }) => stepMs.reduce((sum, ms) => sum + ms, 0));
      const ms = median(runsMs);
      return {
        tokens: length,
        ms,
        tokensPerSecond: (1000 * length) / ms,
        runsMs,
        profile: profileOf(prefills[l]!, own.profile),
      };
    });
    const decode = batches.map((rows, b) => decodeReport(rows, decodes[b]!, own.profile));
    return {
      report: { model, device: facts.device, options: own, prefill, decode },
      tables: [
        {
          caption: `${model} on ${facts.device}; medians of ${own.repeat}`,
          head: ["", "ms", "tokens/s"],
          rows: [
            ...prefill.map((p) => [`prefill of ${p.tokens} tokens`, p.ms, p.tokensPerSecond]),
            ...decode.map((d) => [`decode step of ${d.rows} rows`, d.stepMs, d.tokensPerSecond]),
          ],
        },
        ...prefill.flatMap((p) => profileTable(`a step of a prefill of ${p.tokens} tokens`, p.profile)),
        ...decode.flatMap((d) => profileTable(`a decode step of ${d.rows} rows`, d.profile)),
      ],
      charts: [
        {
          title: "Speed",
          unit: "tokens/s",
          groups: [
            ...prefill.map((p) => ({
              label: `prefill of ${p.tokens}`,
              bars: [{ name: "", value: p.tokensPerSecond }],
            })),
            ...decode.map((d) => ({ label: `decode of ${d.rows}`, bars: [{ name: "", value: d.tokensPerSecond }] })),
          ],
        },
      ],
    };
  },
};

function decodeReport(rows: number, runs: readonly StepsRun[], hasProfile: boolean) {
  const stepMs = median(runs.flatMap((run) => run.stepMs));
  const tokens = runs.reduce((sum, run) => sum + run.tokens, 0) / runs.reduce((sum, run) => sum + run.stepMs.length, 0);
  return { rows, stepMs, tokensPerSecond: (1000 * tokens) / stepMs, profile: profileOf(runs, hasProfile) };
}

/** The run whose mean step is the median one stands for all. */
function profileOf(runs: readonly StepsRun[], hasProfile: boolean): Profile | null {
  if (!hasProfile) return null;
  const profiles = runs.map((run) => run.profile);
  const middle = median(profiles.map(({ stepMs }) => stepMs));
  return profiles.toSorted((a, b) => Math.abs(a.stepMs - middle) - Math.abs(b.stepMs - middle))[0]!;
}

function profileTable(step: string, profile: Profile | null): Table[] {
  if (profile === null) return [];
  const share = (ms: number) => (100 * ms) / profile.stepMs;
  const outsideMs = profile.stepMs - profile.computeMs;
  return [
    {
      caption: `Where ${step} goes`,
      head: ["", "calls", "ms", "%"],
      rows: [
        ...profile.ops.filter(({ op }) => op !== "stage").map(({ op, calls, ms }) => [op, calls, ms, share(ms)]),
        ["outside the device's ops", "", outsideMs, share(outsideMs)],
      ],
    },
  ];
}
