// Points of the checklist that only the whole engine can show, run in simulation on the null device.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AttentionPlanner } from "../../src/attention/planner.js";
import { CacheManager } from "../../src/cache/cache-manager.js";
import { MAX_PARTIAL_ROWS } from "../../src/core/attention-plan.js";
import { Batch } from "../../src/core/batch.js";
import { SAMPLING_DEFAULTS } from "../../src/core/sampling.js";
import { NullDevice } from "../../src/device/null/null-device.js";
import { openCheckpoint } from "../../src/engine/checkpoint.js";
import { createEngine } from "../../src/engine/client/engine.js";
import { EngineCore } from "../../src/engine/core/engine-core.js";
import { pageSpecs, plannerFor } from "../../src/engine/core/load/cache-pools.js";
import { familyOf } from "../../src/models/registry.js";
import { Scheduler } from "../../src/scheduler/scheduler.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const LAYERS = 5;
const model = writeTinyCheckpoint({ layers: LAYERS });

/** A core on the null device, with its device and a count of plans made. */
function simulation() {
  const device = new NullDevice();
  const checkpoint = openCheckpoint(model);
  const family = familyOf(checkpoint.config, checkpoint.configFile);
  const parsed = family.parseConfig(checkpoint.config, checkpoint.configFile);
  const spec = family.specOf(parsed);
  const maxTokens = 256;
  const loaded = family.load(parsed, {
    device,
    source: checkpoint.openTensors(),
    capacity: { maxTokens, maxLogitRows: 64 },
    quantize: "none",
  });
  const cache = new CacheManager({ pageSize: 16, prefixCaching: true, groups: [{ kind: "full", numPages: 200 }] });
  const options = { mode: "extend", pageSize: 16, maxPagesPerBatch: 16, idealChunk: 128 } as const;
  const caches = pageSpecs(spec.caches, { pageSize: 16, dtype: "f32" }).map((page) =>
    device.allocKvPool({ ...page, numPages: 200 }),
  );
  const planner = plannerFor(spec.plans[0]!, spec.caches, device, "fixed", "f32");
  const counts = { plans: 0 };
  const counting = {
    plan: (batch: Batch) => {
      counts.plans++;
      return planner.plan(batch);
    },
  } as unknown as AttentionPlanner;
  const core = new EngineCore({
    name: "tiny",
    device,
    model: loaded,
    caches,
    pageSize: 16,
    cache,
    scheduler: new Scheduler(options, cache, () => 0),
    planners: [counting],
    maxLogitRows: 64,
    maxContext: 512,
    eosIds: [],
    compiler: null,
    clock: () => 0,
  });
  return { core, device, counts };
}

function add(core: EngineCore, id: string, prompt: number[], maxTokens: number): void {
  const sampling = { ...SAMPLING_DEFAULTS, temperature: 0, seed: 0, maxTokens };
  core.add({
    type: "add",
    callId: id,
    kind: "generate",
    prompt: Int32Array.from(prompt),
    sampling,
    priority: 0,
    salt: "",
    arrivalMs: 0,
    constraint: null,
  });
}

test("E1: attention is planned once per step and run once per layer", () => {
  const { core, device, counts } = simulation();
  add(core, "a", Array(100).fill(1), 8);
  add(core, "b", Array(300).fill(2), 8);
  let steps = 0;
  while (core.hasWork) {
    core.step();
    core.checkIntegrity();
    steps++;
  }
  assert.equal(counts.plans, steps);
  assert.equal(device.calls.stage, steps);
  assert.equal(device.calls.attention, steps * LAYERS);
  assert.equal(device.calls.sample <= steps, true);
});

test("B9: a sequence never passes the context, and a prompt that would is refused at the border", async () => {
  await using engine = await createEngine({ model, device: "null", worker: false, numPages: 100 });
  await assert.rejects(engine.generate(Array(512).fill(1)).result(), {
    code: "context_length_exceeded",
    param: "prompt",
  });
  const { trace } = await engine.generate(Array(500).fill(1), { ignoreEos: true }).result();
  assert.equal(trace.promptTokens + trace.completionTokens, 512);
});

test("EX5: partial states live in a workspace the plan bounds, not in on-chip memory: 4 x 128 x 128 f32 is 256 KiB", () => {
  assert.equal(4 * 128 * 128 * 4, 256 * 1024);
  const options = { groupSize: 8, headDim: 128, window: 0, numWorkers: 1024, split: "fixed", kvChunk: 64 } as const;
  const planner = new AttentionPlanner(options);
  const batch = new Batch(16, 4096);
  const tokens = new Int32Array(8192);
  for (let r = 0; r < 8; r++) batch.addRow(tokens, 7680, 512, new Int32Array(512).fill(1), Number.POSITIVE_INFINITY);
  const plan = planner.plan(batch);
  assert.ok(plan.numPartials > 0);
  assert.ok(plan.numPartials * plan.qTile <= MAX_PARTIAL_ROWS, `${plan.numPartials} x ${plan.qTile}`);
});

test("the whole loop runs 10,000 steps of 32 rows without heap growth", () => {
  const { core } = simulation();
  let made = 0;
  const run = (steps: number) => {
    for (let i = 0; i < steps; i++) {
      while (core.stats().running + core.stats().waiting < 32)
        add(core, `r${made++}`, [made % 250, 3, made % 7, 9], 40);
      core.step();
      core.takeOutputs();
    }
    global.gc!();
    return process.memoryUsage().heapUsed;
  };
  const used = [run(2000), run(10_000)];
  const grown = (): number => used.at(-1)! - used.at(-2)!;
  while (grown() >= 2 * 2 ** 20 && used.length < 5) used.push(run(10_000)); // what leaks does so every time
  assert.ok(grown() < 2 * 2 ** 20, `${used} bytes after ${made} requests`);
});
