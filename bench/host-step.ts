// What the host does for one step of 256 rows: schedule, build the batch, plan, publish. Prints; asserts nothing. The target is less
// than 1 ms in all.   node dist/bench/host-step.js [rows]
//
//   decode   every row writes one token; a page fills every 16 steps
//   mixed    half the rows decode, the others are prompts of 600 tokens that begin with one of 8 common prefixes and are replaced
//            as they finish

import { AttentionPlanner } from "../src/attention/planner.js";
import { CacheManager } from "../src/cache/cache-manager.js";
import { Batch } from "../src/core/batch.js";
import type { RequestId } from "../src/core/ids.js";
import { Request } from "../src/core/request.js";
import { SAMPLING_DEFAULTS } from "../src/core/sampling.js";
import { Scheduler } from "../src/scheduler/scheduler.js";

const PAGE = 16;
const NUM_ROWS = Number(process.argv[2] ?? 256);
const NUM_STEPS = 2000;

class Host {
  readonly cache = new CacheManager({
    pageSize: PAGE,
    prefixCaching: true,
    groups: [{ kind: "full", numPages: 200_000 }],
  });
  readonly scheduler = new Scheduler(
    { mode: "extend", pageSize: PAGE, maxPagesPerBatch: 512, idealChunk: 128 },
    this.cache,
    () => 0,
  );
  readonly batch = new Batch(PAGE, this.scheduler.budget);
  readonly planner = new AttentionPlanner({
    groupSize: 4,
    headDim: 128,
    window: 0,
    numWorkers: 16,
    split: "fixed",
    kvChunk: 256,
  });
  readonly timesMs: Record<"schedule" | "batch" | "plan" | "publish", number[]> = {
    schedule: [],
    batch: [],
    plan: [],
    publish: [],
  };
  numTokens = 0;
  #numArrived = 0;

  add(promptLen: number, maxTokens: number): void {
    const n = this.#numArrived++;
    const prompt = Array.from({ length: promptLen }, (_, i) => (i < 256 ? n % 8 : n) * 1000 + i);
    const sampling = { ...SAMPLING_DEFAULTS, seed: 0, maxTokens };
    this.scheduler.add(new Request({ id: `r${n}` as RequestId, prompt, sampling }));
  }

  /** Returns how many requests ended. */
  step(): number {
    const { scheduler, batch, timesMs } = this;
    const t0 = performance.now();
    const step = scheduler.schedule()!;
    const t1 = performance.now();
    batch.clear();
    for (let r = 0; r < step.numRows; r++) {
      const request = step.rows[r]!;
      batch.addRow(
        request.tokens,
        step.starts[r]!,
        step.queryLens[r]!,
        request.tables[0]!.pages,
        request.numTokens - 1,
      );
    }
    const t2 = performance.now();
    this.planner.plan(batch);
    const t3 = performance.now();
    scheduler.land(step);
    const t4 = performance.now();
    timesMs.schedule.push(t1 - t0);
    timesMs.batch.push(t2 - t1);
    timesMs.plan.push(t3 - t2);
    timesMs.publish.push(t4 - t3);
    this.numTokens += step.numTokens;
    return this.#commit(step.rows, step.numRows);
  }

  #commit(rows: readonly Request[], numRows: number): number {
    let numEnded = 0;
    for (let r = 0; r < numRows; r++) {
      const request = rows[r]!;
      if (request.numComputed < request.numTokens) continue;
      request.appendToken(request.numTokens % 977);
      if (request.numGenerated < request.sampling.maxTokens) continue;
      this.scheduler.finish(request, "length");
      numEnded++;
    }
    return numEnded;
  }

  report(name: string): void {
    const parts = Object.entries(this.timesMs).map(([part, times]) => [part, median(times)] as const);
    const total = parts.reduce((sum, [, ms]) => sum + ms, 0);
    const columns = parts.map(([part, ms]) => `${part} ${(ms * 1000).toFixed(0).padStart(4)} us`).join("   ");
    const tokens = (this.numTokens / this.timesMs.plan.length).toFixed(0);
    console.log(
      `${name.padEnd(8)} ${columns}   total ${total.toFixed(3)} ms a step of ${NUM_ROWS} rows, ${tokens} tokens`,
    );
  }
}

function median(times: number[]): number {
  return times.slice(times.length / 2).sort((a, b) => a - b)[Math.floor(times.length / 4)]!;
}

const decode = new Host();
for (let i = 0; i < NUM_ROWS; i++) decode.add(20, NUM_STEPS + 10);
for (let i = 0; i < NUM_STEPS; i++) decode.step();
decode.report("decode");

const mixed = new Host();
for (let i = 0; i < NUM_ROWS / 2; i++) mixed.add(20, NUM_STEPS + 10);
for (let i = 0; i < NUM_ROWS / 2; i++) mixed.add(600, 1);
for (let i = 0; i < NUM_STEPS; i++) for (let ended = mixed.step(); ended > 0; ended--) mixed.add(600, 1);
mixed.report("mixed");
