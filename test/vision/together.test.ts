// Frames that go through a tower together: the bits of each alone, for every family.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import { visionOf } from "../../src/models/vision/registry.js";
import type { Frame } from "../../src/vision/processor.js";
import { RandomSource } from "../support/random-source.js";
import { TINY_EYES } from "../support/tiny-eyes.js";

/** A device with memory of its own has room for several frames, and pads heads. */
class OwnMemory extends ReferenceDevice {
  override readonly info = { ...new ReferenceDevice().info, hasOwnMemory: true, kvDtype: "f32" } as const;
}

function frameOf(width: number, height: number, seed: number): Frame {
  const pixels = Float32Array.from({ length: 3 * width * height }, (_, i) => Math.sin(i * (0.3 + seed) + (i % 7)));
  return { width, height, pixels };
}

for (const [name, { config, absent, sizes }] of Object.entries(TINY_EYES)) {
  test(`${name}: frames together`, async () => {
    const family = visionOf(config)!;
    const parsed = family.parseConfig(config, "config.json");
    const source = new RandomSource({ seed: 5, ...(absent && { absent }) });
    const open = (device: ReferenceDevice) =>
      family.load(parsed, { device, source, quantize: "none" }, { maxTokens: 64 });
    const together = open(new OwnMemory());
    const alone = open(new ReferenceDevice());
    const frames = sizes.map(([width, height], i) => frameOf(width, height, i / 10));
    assert.ok(together.fits(frames));
    assert.ok(!alone.fits(frames), "on the host each has a run of its own");
    const all = await together.encode(frames);
    for (const [i, frame] of frames.entries()) {
      const [own] = await together.encode([frame]);
      assert.deepEqual(all[i]!.grid, own!.grid);
      assert.deepEqual(all[i]!.rows, own!.rows, `frame ${i} has other bits beside others`);
      const [plain] = await alone.encode([frame]);
      const worst = plain!.rows.reduce((most, v, at) => Math.max(most, Math.abs(v - own!.rows[at]!)), 0);
      assert.ok(worst < 5e-4, `frame ${i} differs by ${worst} with padded heads`);
    }
    // Places of the run before are not taken for those of this one.
    const again = await together.encode([...frames].reverse());
    assert.deepEqual(again.at(-1)!.rows, all[0]!.rows);
  });
}
