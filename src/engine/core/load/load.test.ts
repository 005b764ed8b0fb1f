import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openFilesUnder } from "../../../../test/support/open-files.js";
import { outputsOf } from "../../../../test/support/outputs.js";
import { writeTinyCheckpoint } from "../../../../test/support/tiny-checkpoint.js";
import { writeTinyEncoder } from "../../../../test/support/tiny-encoder.js";
import { UnblockingDevice } from "../../../../test/support/unblocking-device.js";
import { engineConfig } from "../../../config/engine-config.js";
import type { Batch } from "../../../core/batch.js";
import { errorFor } from "../../../core/errors.js";
import { SAMPLING_DEFAULTS } from "../../../core/sampling.js";
import { promptChunkOf } from "../../../device/cpu/kernel-device.js";
import type { StagedBatch, Tensor } from "../../../device/device.js";
import { NullDevice } from "../../../device/null/null-device.js";
import { ReferenceDevice } from "../../../device/reference/reference-device.js";
import { loadEngine } from "./load.js";

/** Says that it is a GPU, and has no room. */
class FullDevice extends ReferenceDevice {
  override readonly info = { ...new ReferenceDevice().info, name: "full", hasOwnMemory: true };
  isClosed = false;
  override loadWeight(): never {
    throw errorFor("out_of_memory", { device: "full", value: 2, what: "a weight", limit: 1, remedy: "None." });
  }
  override close(): void {
    this.isClosed = true;
  }
}

test("a model that does not fit the GPU: auto takes the cpu, a named device says so", async (t) => {
  const model = writeTinyCheckpoint();
  const said: string[] = [];
  t.mock.method(process.stderr, "write", (line: string) => said.push(line) > 0);
  for (const device of ["auto", "cuda"] as const) {
    const full = new FullDevice();
    const opened: string[] = [];
    const loading = loadEngine(
      engineConfig({ model, device, numPages: 8 }),
      () => {},
      async (config) => {
        opened.push(config.device);
        return config.device === device ? full : new ReferenceDevice();
      },
    );
    if (device === "cuda") await assert.rejects(loading, { code: "out_of_memory" });
    else (await loading).core.close();
    assert.deepEqual(opened, device === "cuda" ? ["cuda"] : ["auto", "cpu"]);
    assert.ok(full.isClosed);
  }
  assert.equal(said.filter((line) => line.includes("a weight") && line.includes("Using the cpu device")).length, 1);
});

class BusyDevice extends ReferenceDevice {
  override readonly info = { ...new ReferenceDevice().info, promptChunk: 64 };
}

test("a prompt's chunks are as long as the device says, unless somebody asks for others; its answer is the same", async () => {
  const model = writeTinyCheckpoint();
  const prompt = Int32Array.from({ length: 100 }, (_, i) => (7 * i) % 50);
  const answers = [];
  for (const [asked, numSteps] of [
    [{}, 2],
    [{ idealChunk: 16 }, 7],
    [{ idealChunk: 4096 }, 1],
  ] as const) {
    const config = engineConfig({ model, device: "reference", numPages: 20, ...asked });
    const { core } = await loadEngine(
      config,
      () => {},
      async () => new BusyDevice(),
    );
    core.add({
      ...{
        type: "add",
        callId: "a",
        kind: "generate",
        prompt,
        sampling: { ...SAMPLING_DEFAULTS, maxTokens: 1, logprobs: 2, seed: 1 },
      },
      ...{ priority: 0, salt: "", arrivalMs: 0, constraint: null },
    });
    let steps = 0;
    for (; core.hasWork; steps++) core.step();
    assert.equal(steps, numSteps);
    answers.push(outputsOf(core).map(({ tokens, logprobs }) => ({ tokens, logprobs })));
    core.close();
  }
  assert.deepEqual(answers[1], answers[0]);
  assert.deepEqual(answers[2], answers[0]);
});

test("the more threads, the longer the chunks that keep them busy", () => {
  assert.deepEqual(
    [1, 2, 4, 8, 16].map((threads) => promptChunkOf(threads, "avx512")),
    [128, 128, 128, 256, 512],
  );
  assert.deepEqual(
    [1, 2, 4, 8, 16].map((threads) => promptChunkOf(threads, "amx")),
    [128, 128, 256, 512, 1024],
  );
});

class RoomyDevice extends ReferenceDevice {
  override readonly info = { ...new ReferenceDevice().info, hostTierBytes: 1e12 };
}

test("the second tier has what was asked for, else what the device has for it, at most as much as the pools", async () => {
  const model = writeTinyCheckpoint({ layers: 1 });
  for (const [asked, Device, maxBytes] of [
    [{ hostCacheMb: 3 }, ReferenceDevice, () => 3 * 2 ** 20],
    [{ hostCacheMb: 3, prefixCaching: false }, ReferenceDevice, () => undefined],
    [{ hostCacheMb: 0 }, RoomyDevice, () => undefined],
    [{}, ReferenceDevice, () => undefined],
    [{}, RoomyDevice, (pageBytes: number) => 8 * pageBytes],
  ] as const) {
    const progress: [number, number][] = [];
    const { core, facts } = await loadEngine(
      engineConfig({ model, device: "reference", numPages: 8, ...asked }),
      (...loaded) => progress.push(loaded),
      async () => new Device(),
    );
    assert.equal(core.stats().hostTier?.maxBytes, maxBytes(facts.pageBytes));
    assert.equal(progress.at(-1)![0], progress.at(-1)![1], "all of it is loaded");
    assert.deepEqual([facts.maxContext, facts.poolTokens, facts.pageSize], [512, 7 * 16, 16]);
    assert.deepEqual(openFilesUnder(model), [], "the checkpoint is closed");
    core.close();
  }
});

test("a grammar may take as long to compile as is asked for", async () => {
  const config = engineConfig({ model: writeTinyCheckpoint(), device: "reference", numPages: 8, grammarSeconds: 0.25 });
  const { core, compiler } = await loadEngine(config, () => {});
  const endless = { kind: "regex", source: "(.|..|...){3000}x".repeat(12) } as const;
  await compiler!.ready(endless);
  assert.throws(() => compiler!.compile(endless), /it takes longer than 0\.25 s to compile/);
  core.close();
});

test("only a GPU that is too small makes auto try the cpu", async () => {
  const model = writeTinyCheckpoint({ layers: 1 });
  const full = errorFor("out_of_memory", { device: "d", value: 2, what: "a weight", limit: 1, remedy: "None." });
  for (const [error, hasOwnMemory] of [
    [full, false],
    [errorFor("aborted"), true],
    [new Error("out_of_memory"), true],
  ] as const) {
    class Failing extends NullDevice {
      override readonly info = { ...new NullDevice().info, hasOwnMemory };
      override loadWeight(): never {
        throw error;
      }
    }
    const opened: string[] = [];
    const config = engineConfig({ model, device: "auto", numPages: 8 });
    const loading = loadEngine(
      config,
      () => {},
      async ({ device }) => {
        opened.push(device);
        return new Failing();
      },
    );
    await assert.rejects(loading, (thrown) => thrown === error);
    assert.deepEqual(opened, ["auto"]);
  }
});

test("where pages cannot be read there is no exchange, no file and no second tier", async () => {
  const cacheDir = mkdtempSync(join(tmpdir(), "pagoda-unblocking-"));
  const options = {
    model: writeTinyCheckpoint({ layers: 1 }),
    device: "reference",
    numPages: 8,
    hostCacheMb: 1,
    cacheDir,
  };
  for (const [device, isThere] of [
    [new UnblockingDevice(), false],
    [new ReferenceDevice(), true],
  ] as const) {
    const { core, exchange, store } = await loadEngine(
      engineConfig({ ...options, warmup: true }),
      () => {},
      async () => device,
    );
    assert.deepEqual([exchange !== null, store !== null], [isThere, isThere]);
    assert.equal(core.stats().hostTier !== null, isThere);
    core.close();
  }
});

/** Notes the sizes of what it is asked for. */
class SizedDevice extends NullDevice {
  mostRows = 0;
  readonly stepRows = new Set<number>();
  override allocTensor(rows: number, cols: number): Tensor {
    this.mostRows = Math.max(this.mostRows, rows);
    return super.allocTensor(rows, cols);
  }
  override stage(staged: StagedBatch, batch: Batch): void {
    this.stepRows.add(batch.numRows);
    super.stage(staged, batch, []);
  }
}

async function sized(model: string, options: Record<string, unknown>) {
  const device = new SizedDevice();
  const config = engineConfig({ model, device: "null", numPages: 300, ...options });
  const { core, facts } = await loadEngine(
    config,
    () => {},
    async () => device,
  );
  core.close();
  return { device, facts, stepRows: [...device.stepRows] };
}

test("a step holds pages x tokens; a text whose tokens see each other fits into one step, however long", async () => {
  const model = writeTinyCheckpoint({ layers: 1 });
  assert.equal((await sized(model, { maxPagesPerBatch: 3 })).device.mostRows, 48);
  const encoder = writeTinyEncoder();
  assert.equal((await sized(encoder, { maxPagesPerBatch: 1 })).device.mostRows, 64);
  assert.equal((await sized(encoder, { maxPagesPerBatch: 5 })).device.mostRows, 80);
});

test("a warm-up takes steps of up to 256 rows, or as many as a step has; without one there are none", async () => {
  const model = writeTinyCheckpoint({ layers: 1 });
  assert.deepEqual((await sized(model, {})).stepRows, []);
  const { stepRows } = await sized(model, { warmup: true, numPages: 600 });
  const sizes = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128];
  assert.deepEqual(
    stepRows.sort((a, b) => a - b),
    [...sizes, 160, 192, 224, 256],
  );
  assert.deepEqual((await sized(model, { warmup: true, maxPagesPerBatch: 1 })).stepRows.at(-1), 16);
  assert.deepEqual((await sized(writeTinyEncoder(), { warmup: true })).stepRows, []);
});

test("facts of an engine: its context is the model's or less; engines agree in identity where their bits agree", async () => {
  const model = writeTinyCheckpoint({ layers: 1 });
  const own = (await sized(model, {})).facts;
  assert.deepEqual([own.maxContext, own.vocabSize, own.hiddenSize, own.pageSize], [512, 260, 48, 16]);
  assert.equal((await sized(model, { maxContext: 100 })).facts.maxContext, 100);
  assert.equal((await sized(model, { maxContext: 9999 })).facts.maxContext, 512);
  assert.match(own.identity, /^[0-9a-f]{32}$/);
  assert.equal((await sized(model, { numPages: 40 })).facts.identity, own.identity);
  for (const options of [
    { quantize: "q8" },
    { kvDtype: "f32" },
    { pageSize: 8 },
    { split: "balanced" },
    { maxContext: 100 },
  ])
    assert.notEqual((await sized(model, options)).facts.identity, own.identity, JSON.stringify(options));
  assert.notEqual((await sized(writeTinyCheckpoint({ layers: 1, seed: 2 }), {})).facts.identity, own.identity);
});
