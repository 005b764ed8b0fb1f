import assert from "node:assert/strict";
import { test } from "node:test";
import { openFilesUnder } from "../../../test/support/open-files.js";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { engineConfig } from "../../config/engine-config.js";
import { errorFor } from "../../core/errors.js";
import { SAMPLING_DEFAULTS } from "../../core/sampling.js";
import { promptChunkOf } from "../../device/cpu/kernel-device.js";
import { ReferenceDevice } from "../../device/reference/reference-device.js";
import { loadEngine } from "./load.js";

/** Says that it is a GPU, and has no room. */
class FullDevice extends ReferenceDevice {
  override readonly info = { ...new ReferenceDevice().info, name: "full", asyncDepth: 2 as const };
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
    answers.push(core.takeOutputs().map(({ tokens, logprobs }) => ({ tokens, logprobs })));
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
