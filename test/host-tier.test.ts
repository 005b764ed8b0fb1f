// Evicted prefixes that come back from host memory give a real model the bits that computing them gives, whatever its layers keep and
// however many flights are in flight.

import { existsSync } from "node:fs";
import { test } from "node:test";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import { runTierTraffic } from "./support/tier-traffic.js";
import { withByteTokenizer } from "./support/tiny-checkpoint.js";

const CASES = [
  { name: "full attention", model: "test/goldens/llama", asyncDepth: 1 },
  { name: "full attention", model: "test/goldens/llama", asyncDepth: 2 },
  { name: "windows beside full attention", model: "test/goldens/gemma3", asyncDepth: 2 },
  { name: "latent", model: "test/goldens/deepseek-v3", asyncDepth: 2 },
  { name: "states beside full attention", model: "../shared/goldens2/qwen3.5", asyncDepth: 2 },
] as const;

for (const { name, model, asyncDepth } of CASES) {
  const skip = existsSync(model) ? false : `${model} is not here`;
  class FlyingDevice extends ReferenceDevice {
    override readonly info = { ...new ReferenceDevice().info, asyncDepth };
  }
  test(`${name}, ${asyncDepth} in flight: prefixes that were evicted come back with the same bits`, { skip }, () =>
    runTierTraffic({
      options: { model: withByteTokenizer(model, 320), pageSize: 4, idealChunk: 16, hostCacheMb: 64 },
      open: async () => new FlyingDevice(),
      length: 43,
      turns: 8,
    }),
  );
}
