// Where the time of a decode step goes on the cuda device, as it runs: graphs, overlaps and gaps included.
//   PAGODA_CUDA_TRACE=1 node dist/bench/cuda-step.js MODEL [rows,rows,...] [context]
// `own`: from the end of the launch ahead to the end of this one, the time by which it makes the step longer; all of them are the step.
// `waits`: from that end to when this launch knew of it; `runs`: from there to the end of its last block.
// What the host does meanwhile: bench/host-time.ts.

import { CoreRunner } from "../src/cli/bench/core-runner.js";
import { OpTimes } from "../src/cli/bench/timed-device.js";
import { engineConfig } from "../src/config/engine-config.js";
import { CudaDevice } from "../src/device/cuda/cuda-device.js";
import type { TraceRecord } from "../src/device/cuda/driver/trace.js";
import { loadEngine } from "../src/engine/core/load/load.js";

const [model = "", rowList = "1,32,256", context = "512"] = process.argv.slice(2);
const STEPS = 24;
if (process.env.PAGODA_CUDA_TRACE === undefined)
  throw new Error("kernels write their times where PAGODA_CUDA_TRACE is set");
const device = new CudaDevice();
const config = engineConfig({ model, device: "cuda", maxPagesPerBatch: 512, idealChunk: 8192 });
const { core, facts } = await loadEngine(
  config,
  () => {},
  async () => device,
);
const runner = new CoreRunner(core, facts.vocabSize, 1, new OpTimes());
for (const rows of rowList.split(",").map(Number)) {
  runner.decode(rows, Number(context), 8); // compiles and captures
  const { stepMs } = runner.decode(rows, Number(context), STEPS);
  const sorted = stepMs.toSorted((a, b) => a - b);
  console.log(`\n${rows} rows: ${sorted[STEPS >> 1]!.toFixed(3)} ms a step on the host's clock`);
  timeline(device.readTrace());
}
core.close();

interface Launch {
  readonly kernel: string;
  readonly blocks: number;
  readonly begin: number;
  readonly waited: number;
  end: number;
}

/** First and last blocks of a launch joined, in order of their ends. */
function launchesOf(records: readonly TraceRecord[]): Launch[] {
  const open = new Map<string, Launch>();
  const launches: Launch[] = [];
  for (const { kernel, blocks, begin, waited, end, isLast } of records) {
    const key = `${kernel} ${blocks}`;
    const first = open.get(key);
    if (first !== undefined && isLast) {
      first.end = Math.max(first.end, end);
      open.delete(key);
      continue;
    }
    const launch = { kernel, blocks, begin, waited, end };
    launches.push(launch);
    if (blocks > 1) open.set(key, launch);
  }
  return launches.sort((a, b) => a.end - b.end);
}

function timeline(records: readonly TraceRecord[]): void {
  const all = launchesOf(records);
  const ends = all.flatMap(({ kernel }, i) => (kernel.startsWith("lookup_rows") ? [i] : []));
  const from = ends.at(-STEPS)!;
  const to = ends.at(-1)!;
  const steps = ends.slice(-STEPS).length - 1;
  const rows = new Map<string, { count: number; own: number; waits: number; runs: number }>();
  for (let i = from; i < to; i++) {
    const { kernel, blocks, waited, end } = all[i]!;
    const ahead = all[i - 1]!.end;
    const key = `${kernel} (${blocks})`;
    const row = rows.get(key) ?? { count: 0, own: 0, waits: 0, runs: 0 };
    rows.set(key, row);
    row.count++;
    row.own += end - ahead;
    row.waits += waited - ahead;
    row.runs += end - waited;
  }
  const total = all[to]!.end - all[from]!.end;
  console.log(`${(total / steps / 1e6).toFixed(3)} ms a step on the GPU's clock, ${(to - from) / steps} launches`);
  console.log("kernel (blocks)                           x step   own us    waits     runs   share");
  for (const [key, { count, own, waits, runs }] of [...rows].sort((a, b) => b[1].own - a[1].own)) {
    const each = (ns: number) => (ns / count / 1000).toFixed(2).padStart(8);
    const share = ((100 * own) / total).toFixed(1).padStart(6);
    console.log(
      `${key.padEnd(42)} ${(count / steps).toFixed(1).padStart(5)} ${each(own)} ${each(waits)} ${each(runs)} ${share}%`,
    );
  }
}
