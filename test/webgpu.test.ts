// What is WebGPU's own: kernels that serve the same op give the same bits, weights keep their width, a package that is absent is told.

import assert from "node:assert/strict";
import { test } from "node:test";
import { engineConfig } from "../src/config/engine-config.js";
import type { TensorDtype } from "../src/core/tensor.js";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import { openNodeGpu } from "../src/device/webgpu/open-node.js";
import { checkBits, hasFixedBits } from "../src/device/webgpu/self-check.js";
import type { GpuTensor } from "../src/device/webgpu/tensor.js";
import type { WebGpuDevice } from "../src/device/webgpu/webgpu-device.js";
import { createEngine } from "../src/engine/client/engine.js";
import { startInProcess } from "../src/engine/client/host.js";
import { HostedEngine } from "../src/engine/client/hosted-engine.js";
import { openDevice } from "../src/engine/core/load/devices.js";
import { assertSameBits, readAll } from "./contract/duel.js";
import { randomWeight, rowsOf, stageTokens } from "./contract/inputs.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";
import { openWebGpu } from "./support/webgpu.js";

const { device: found, reason } = await openWebGpu();
found?.close();
const skip = found === null ? reason : false;

const KEPT: readonly TensorDtype[] = ["f32", "f16", "bf16", "q4_0", "q8_0", "q4_k", "q6_k"];

async function withDevices(run: (gpu: WebGpuDevice, serial: WebGpuDevice) => Promise<void>): Promise<void> {
  const [gpu, serial] = [(await openWebGpu()).device!, (await openWebGpu("serial")).device!];
  try {
    await run(gpu, serial);
  } finally {
    gpu.close();
    serial.close();
  }
}

test("tiles, matvecs of 1, 2, 4 and 8 rows and kernels without barriers give the same bits", { skip }, async () => {
  await withDevices(async (gpu, serial) => {
    const [rows, n] = [75, 70];
    for (const dtype of ["bf16", "q4_0", "q6_k"] as const) {
      const cols = dtype === "bf16" ? 1101 : 1280;
      const multiply = (device: WebGpuDevice, from: number, count: number) => {
        const out = device.allocTensor(count, rows);
        const weight = device.loadWeight([randomWeight(dtype, rows, cols, 1)]);
        device.matmul(out, rowsOf(device, from, count, cols, 2), weight, count);
        return readAll(device, out);
      };
      const whole = await multiply(gpu, 0, n);
      assertSameBits(await multiply(serial, 0, n), whole, `${dtype}, serial`);
      for (const count of [1, 2, 3, 7, 16]) {
        assertSameBits(
          await multiply(gpu, 5, count),
          whole.subarray(5 * rows, (5 + count) * rows),
          `${dtype}, ${count} rows`,
        );
      }
    }
  });
});

test("rows that a norm or a gate rounds at once meet codes with the bits of rows rounded alone", { skip }, async () => {
  const gpu = (await openWebGpu()).device!;
  const [n, cols] = [3, 1120];
  const weight = gpu.loadWeight([randomWeight("q4_0", 40, cols, 1)]);
  const [x, y] = [rowsOf(gpu, 0, n, cols, 2), rowsOf(gpu, 0, n, cols, 3)];
  const [factors, shifts] = [rowsOf(gpu, 0, 1, cols, 4), rowsOf(gpu, 0, 1, cols, 5)];
  const gate = gpu.createMap({ kind: "gate", activation: "silu" });
  const made: [string, (out: GpuTensor) => void][] = [
    ["rmsNorm", (out) => gpu.rmsNorm(out, x, factors, 1e-5, n)],
    ["addRmsNorm", (out) => gpu.addRmsNorm(out, x, y, factors, 1e-5, n)],
    ["layerNorm", (out) => gpu.layerNorm(out, x, factors, shifts, 1e-5, n)],
    ["gate", (out) => gpu.map(out, gate, x, y, n)],
  ];
  for (const [name, make] of made) {
    const [out, atOnce, alone] = [gpu.allocTensor(n, cols), gpu.allocTensor(n, 40), gpu.allocTensor(n, 40)];
    make(out);
    const before = gpu.usage().launches;
    gpu.matmul(atOnce, out, weight, n);
    assert.equal(gpu.usage().launches - before, 1, `${name} left the rounding to the product`);
    gpu.matmul(alone, gpu.loadTensor(await readAll(gpu, out), n, cols), weight, n);
    assertSameBits(await readAll(gpu, atOnce), await readAll(gpu, alone), name);
  }
  gpu.close();
});

test("gate and up in one pass give the numbers and the codes of both, one after the other", { skip }, async () => {
  const gpu = (await openWebGpu()).device!;
  const [cols, inner] = [288, 96];
  const [both, down] = [randomWeight("q4_0", 2 * inner, cols, 1), randomWeight("q8_0", 40, inner, 2)];
  const [gateUp, next] = [gpu.loadWeight([both]), gpu.loadWeight([down])];
  const gate = gpu.createMap({ kind: "gate", activation: "silu" });
  for (const n of [1, 3, 11]) {
    const x = rowsOf(gpu, 0, n, cols, 3);
    const [halves, inTwo, atOnce] = [
      gpu.allocTensor(n, 2 * inner),
      gpu.allocTensor(n, inner),
      gpu.allocTensor(n, inner),
    ];
    gpu.matmul(halves, x, gateUp, n);
    gpu.map(inTwo, gate, halves.columns(0, inner), halves.columns(inner, 2 * inner), n);
    const [outTwo, outOnce] = [gpu.allocTensor(n, 40), gpu.allocTensor(n, 40)];
    gpu.matmul(outTwo, inTwo, next, n);
    assert.equal(gpu.gatedMatmul(atOnce, x, gateUp, "silu", n), true);
    const before = gpu.usage().launches;
    gpu.matmul(outOnce, atOnce, next, n);
    assert.equal(gpu.usage().launches - before, 1, "the product rounded rows that were rounded");
    assertSameBits(await readAll(gpu, atOnce), await readAll(gpu, inTwo), `${n} rows`);
    assertSameBits(await readAll(gpu, outOnce), await readAll(gpu, outTwo), `${n} rows, the next product`);
  }
  gpu.close();
});

test("an engine has the same bits on the kernels of a GPU, fused, and on those of a processor, and says where they may differ", {
  skip,
}, async () => {
  const model = writeTinyCheckpoint({ hidden: 96, heads: 3, kvHeads: 1, ffn: 160, context: 512 });
  const prompt = Array.from({ length: 150 }, (_, i) => (7 * i) % 250); // attention is split, and merged
  const answers = [];
  for (const kernels of ["gpu", "serial"] as const) {
    const config = engineConfig({ model, device: "webgpu", quantize: "q4", worker: false, numPages: 32 });
    const engine = new HostedEngine(config, null, (asked, listener) =>
      startInProcess(asked, listener, async () => {
        const device = (await openWebGpu(kernels)).device!;
        if (kernels === "serial") device.info = { ...device.info, hasLooseBits: true };
        return device;
      }),
    );
    await engine.ready;
    assert.equal(engine.model.deterministic, kernels === "gpu");
    const { samples } = await engine
      .generate(prompt, { maxTokens: 4, temperature: 0, ignoreEos: true, logprobs: 2 })
      .result();
    assert.equal(samples[0]!.logprobs!.length, 4);
    answers.push(samples.map(({ tokenIds, logprobs }) => ({ tokenIds, logprobs })));
    await engine.close();
  }
  assert.deepEqual(answers[0], answers[1]);
});

test("the GPU's clock tells how long a flight computed, where it is asked for", { skip }, async () => {
  const model = writeTinyCheckpoint({ hidden: 64, heads: 2, kvHeads: 1, ffn: 96 });
  process.env.PAGODA_WEBGPU_CLOCK = "1";
  const begun = performance.now();
  const engine = await createEngine({ model, device: "webgpu", worker: false, numPages: 16 });
  delete process.env.PAGODA_WEBGPU_CLOCK;
  await engine.generate([1, 2, 3], { maxTokens: 4, ignoreEos: true }).result();
  const { busyMs } = (await engine.stats()).deviceUsage!;
  await engine.close();
  assert.ok(busyMs > 0 && busyMs < performance.now() - begun, `${busyMs} ms`);
});

test("auto takes no adapter in software, which a name takes", { skip }, async (t) => {
  const named = await openDevice({ device: "webgpu", threads: 1 });
  const { isSoftware } = named as WebGpuDevice;
  named.close();
  if (!isSoftware) return t.skip("the adapter is no software");
  assert.equal(typeof (await openNodeGpu({ allowsSoftware: false })), "string");
  const chosen = await openDevice({ device: "auto", threads: 1 });
  chosen.close();
  assert.notEqual(chosen.info.name, "webgpu");
});

test("weights that keep their width hold the numbers of the checkpoint", { skip }, async () => {
  const gpu = (await openWebGpu()).device!;
  const reference = new ReferenceDevice();
  for (const dtype of KEPT) {
    const weight = gpu.loadWeight([randomWeight(dtype, 50, 256, 1)]);
    assert.equal(weight.dtype, dtype);
    const [out, expected] = [gpu.allocTensor(13, 256), reference.allocTensor(13, 256)];
    gpu.embed(out, weight, stageTokens(gpu, [3, 1, 9], 50), 1);
    reference.embed(
      expected,
      reference.loadWeight([randomWeight(dtype, 50, 256, 1)]),
      stageTokens(reference, [3, 1, 9], 50),
      1,
    );
    const values = await readAll(gpu, out);
    values.forEach((value, i) => {
      assert.ok(
        Math.abs(value - expected.data[i]!) <= 1e-6 * Math.max(1, Math.abs(value)),
        `${dtype} ${i}: ${value}, not ${expected.data[i]}`,
      );
    });
  }
  assert.equal(gpu.loadWeight([randomWeight("q5_k", 3, 256, 1)]).dtype, "bf16");
  gpu.close();
});

test("the check at open finds an adapter on which many rows have other bits than few", { skip }, async () => {
  const gpu = (await openWebGpu()).device!;
  assert.equal(await hasFixedBits(gpu), true);
  const matmul = (...[out, x, weight, n]: Parameters<WebGpuDevice["matmul"]>) =>
    gpu.matmul(out, x, weight, n, { scale: n > 16 ? 1 + 2 ** -22 : 1 });
  const loose = new Proxy(gpu, {
    get: (_, name) => {
      if (name === "isSoftware") return false; // whose kernels are those that tests compare: it is not checked at open
      const found = Reflect.get(gpu, name, gpu);
      return name === "matmul" ? matmul : typeof found === "function" ? found.bind(gpu) : found;
    },
  });
  assert.equal(await hasFixedBits(loose), false);
  const said: string[] = [];
  await checkBits(loose, (line) => said.push(line));
  assert.deepEqual([gpu.info.hasLooseBits, said.length], [true, 1]);
  gpu.close();
});
