import assert from "node:assert/strict";
import { test } from "node:test";
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
