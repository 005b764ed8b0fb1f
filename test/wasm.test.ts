// What is the wasm device's own: the committed modules are those of the sources, a model too large for its memory is refused in
// words, a thread that traps fails the call it works for, and a device that is closed gives its threads back.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { nodeWasmHost } from "../src/device/wasm/node-host.js";
import { WasmLibrary } from "../src/device/wasm/wasm-library.js";
import { openDevice } from "../src/engine/core/load/devices.js";

test("the committed modules were made from the present sources", async () => {
  const script = new URL("../../scripts/build-wasm.mjs", import.meta.url).href;
  const { sourceKeys } = (await import(script)) as { sourceKeys(): Record<string, string> };
  const { compiler, ...made } = JSON.parse(readFileSync("native/wasm/sources.json", "utf8"));
  assert.deepEqual(made, sourceKeys(), `run: npm run build:wasm (they were made by ${compiler})`);
});

test("what does not fit into 4 GiB is refused with the size and the limit", async () => {
  const device = await openDevice({ device: "wasm", threads: 1 });
  assert.throws(() => device.allocTensor(2 ** 20, 2 ** 11), {
    code: "out_of_memory",
    message: /8589934592 bytes.*4 GiB/,
  });
  assert.equal(device.allocTensor(4, 4).rows, 4, "and the device goes on");
  device.close();
});

test("a trap in any thread fails the call, and every later one; nobody waits for it", async () => {
  const library = await WasmLibrary.open(nodeWasmHost, 2);
  const { native } = library;
  const out = new BigUint64Array(1);
  assert.equal(native.pg_context_create(2, 0, out), 0);
  const context = Number(out[0]);
  const cols = 16384; // two rows: a chunk for each thread
  assert.equal(native.pg_alloc(context, cols * 4, out), 0);
  const first = Number(out[0]);
  const beyond = (2 ** 32 - 4096 - first) / 4; // the second row lies where there is no memory
  const trap = { code: "device_call", message: /wasm: pg_scale failed with status trap: .+cannot be used any more/ };
  assert.throws(() => native.pg_scale(context, first, beyond, 2, 2, cols), trap);
  assert.throws(() => native.pg_scale(context, first, 0, 2, 1, cols), trap);
  native.pg_context_free(context);
  library.close();
});

test("the largest codes and activations leave exact sums: nothing saturates on the way", async () => {
  const device = await openDevice({ device: "wasm", threads: 1 });
  const [rows, cols, n] = [40, 96, 3];
  // Blocks of 32 with a factor of 1, all codes the largest, and the value they stand for.
  for (const [dtype, bytesPerBlock, code, value] of [
    ["q4_0", 18, 0xff, 7],
    ["q4_0", 18, 0x00, -8],
    ["q5_0", 22, 0xff, 15],
    ["q8_0", 34, 0x7f, 127],
  ] as const) {
    const bytes = new Uint8Array((rows * cols * bytesPerBlock) / 32).fill(code);
    for (let at = 0; at < bytes.length; at += bytesPerBlock) bytes.set([0x00, 0x3c], at); // 1 in f16
    const weight = device.loadWeight([
      { name: dtype, dtype, shape: [rows, cols], file: null, byteLength: bytes.length, bytes: () => bytes },
    ]);
    for (const most of [127, -127]) {
      const out = device.allocTensor(n, rows);
      device.matmul(out, device.loadTensor(new Float32Array(n * cols).fill(most), n, cols), weight, n);
      const read = new Float32Array(n * rows);
      device.read(read, out, 0, n);
      assert.deepEqual(read, new Float32Array(n * rows).fill(value * most * cols), `${dtype}, ${code} times ${most}`);
    }
  }
  device.close();
});
