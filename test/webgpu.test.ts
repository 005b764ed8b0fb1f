// What is WebGPU's own: kernels that serve the same op give the same bits, weights keep their width, a package that is absent is told.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { TensorDtype } from "../src/core/tensor.js";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import { checkBits, hasFixedBits } from "../src/device/webgpu/self-check.js";
import type { WebGpuDevice } from "../src/device/webgpu/webgpu-device.js";
import { assertSameBits, readAll } from "./contract/duel.js";
import { randomWeight, rowsOf, stageTokens } from "./contract/inputs.js";
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
