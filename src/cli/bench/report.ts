// `pagoda bench report`: what a machine is and how fast a model runs on it, as one table to paste: doctor's findings and short runs of
// `bench latency`. So those who have a machine that we have not can show what it does.

import { examine } from "../doctor/doctor.js";
import type { Bench } from "./benchmark.js";
import { ENGINE_FLAGS, latencyBench } from "./latency.js";
import { digits } from "./table.js";

const RUNS = { prefill: ["512"], batch: ["1", "8"], steps: 24, repeat: 3, warmupSteps: 24 } as const;

interface Measured {
  readonly model: string;
  readonly device: string;
  readonly prefill: readonly { readonly tokens: number; readonly tokensPerSecond: number }[];
  readonly decode: readonly { readonly rows: number; readonly tokensPerSecond: number }[];
}

export const reportBench: Bench = {
  positionals: [],
  options: ENGINE_FLAGS,
  async run(values) {
    const found = await examine();
    const { report, charts } = await latencyBench.run({ ...RUNS, ...values }, []);
    const { model, device, prefill, decode } = report as unknown as Measured;
    const speed = (tokensPerSecond: number): string => `${digits(tokensPerSecond)} tokens/s`;
    const rows = [
      ["pagoda", `${found.pagoda}, Node ${found.node}, ${found.system}`],
      ["processor", found.processor],
      ["cores", `${found.cores.used} of ${found.cores.visible}`],
      ["GPU", found.gpu],
      ["WebGPU", found.webgpu],
      ["model", model],
      ["device", device],
      ...prefill.map((p) => [`prefill of ${p.tokens} tokens`, speed(p.tokensPerSecond)]),
      ...decode.map((d) => [`decode of ${d.rows} rows`, speed(d.tokensPerSecond)]),
    ];
    return {
      report: { ...report, found },
      tables: [{ caption: `${model} on ${found.system}`, head: ["", "found"], rows }],
      charts,
    };
  },
};
