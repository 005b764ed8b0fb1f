// A GPU that is lost under way (a driver's reset, sleep): the engine opens it again, and requests that had not begun are answered.

import assert from "node:assert/strict";
import { test } from "node:test";
import { engineConfig } from "../src/config/engine-config.js";
import type { TokenBuffer } from "../src/device/device.js";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import type { GpuQueue } from "../src/device/webgpu/gpu-queue.js";
import { startInProcess } from "../src/engine/client/host.js";
import { HostedEngine } from "../src/engine/client/hosted-engine.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";
import { openWebGpu } from "./support/webgpu.js";

class LosableDevice extends ReferenceDevice {
  isLost = false;
  isClosed = false;
  override waitFor(_tokens: TokenBuffer): void {
    if (this.isLost) throw new Error("the device was lost");
  }
  override close(): void {
    this.isClosed = true;
    super.close();
  }
}

test("a device that is lost is opened again: the running request fails, the next is answered as before", async () => {
  const opened: LosableDevice[] = [];
  const start = (...[config, listener]: Parameters<typeof startInProcess>) =>
    startInProcess(config, listener, async () => {
      const device = new LosableDevice();
      opened.push(device);
      return device;
    });
  const config = engineConfig({ model: writeTinyCheckpoint(), device: "reference", worker: false, numPages: 32 });
  const engine = new HostedEngine(config, null, start);
  await engine.ready;
  try {
    const request = { maxTokens: 8, temperature: 0 };
    const before = await engine.generate([1, 2, 3], request).result();
    const running = engine.generate([1, 2, 3], { maxTokens: 200, temperature: 0, ignoreEos: true });
    for await (const _ of running) {
      opened[0]!.isLost = true;
      break;
    }
    await assert.rejects(engine.generate([5, 6, 7], { ...request, ignoreEos: true }).result());
    const after = await engine.generate([1, 2, 3], request).result();
    assert.deepEqual(after.text, before.text);
    assert.deepEqual(
      opened.map(({ isClosed }) => isClosed),
      [true, false],
    );
    assert.deepEqual([engine.health().state, engine.health().restarts], ["ready", 1]);
  } finally {
    await engine.close();
  }
});

const { device, reason } = await openWebGpu();

test("memory that a GPU turns out not to have is out_of_memory", {
  skip: device === null ? reason : false,
}, async () => {
  const gpu = device!;
  const { queue } = gpu as unknown as { readonly queue: GpuQueue };
  await gpu.checkMemory();
  // What a driver says when an allocation fails after the call has returned; no driver in software fails so on purpose.
  class GPUOutOfMemoryError {
    readonly message = "allocation failed";
  }
  queue.handle.onuncapturederror!({ error: new GPUOutOfMemoryError() });
  await assert.rejects(gpu.checkMemory(), { code: "out_of_memory" });
  gpu.close();
});
