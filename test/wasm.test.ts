// What is the wasm device's own: the committed modules are those of the sources, a model too large for its memory is refused in
// words, and a device that is closed gives its threads back.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { openDevice } from "../src/engine/core/devices.js";

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
