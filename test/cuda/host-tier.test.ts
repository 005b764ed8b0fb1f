// The second tier on the GPU, or its emulator: pages go to page-locked memory and come back on a stream beside the flights'. Where nobody
// asks for a size it is as large as the pool.

import { existsSync } from "node:fs";
import { test } from "node:test";
import { openCuda } from "../support/cuda.js";
import { runTierTraffic } from "../support/tier-traffic.js";
import { withByteTokenizer, writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const { device, reason } = await openCuda();
device?.close();

const GOLDENS = [
  { name: "windows beside full attention", model: "test/goldens/gemma3" },
  { name: "latent", model: "test/goldens/deepseek-v3" },
  { name: "states beside full attention", model: "../shared/goldens2/qwen3.5" },
];
const turns = Number(process.env.TIER_TURNS ?? 40);

for (const { name, model } of GOLDENS) {
  const skip = reason || (existsSync(model) ? false : `${model} is not here`);
  test(`${name}: prefixes that were evicted come back with the same bits`, { skip }, () =>
    run({ model: withByteTokenizer(model, 320), pageSize: 4, idealChunk: 16, hostCacheMb: 64 }, 43),
  );
}

test("pages of the tensor-core kernels come back with the same bits", { skip: reason }, () => {
  const model = writeTinyCheckpoint({ hidden: 256, heads: 4, kvHeads: 2, ffn: 160, dtype: "BF16" });
  return run({ model, pageSize: 16, idealChunk: 64, kvDtype: "bf16" }, 200);
});

function run(options: Parameters<typeof runTierTraffic>[0]["options"], length: number): Promise<void> {
  const open = async () => (await openCuda()).device!;
  return runTierTraffic({ options, open, length, turns });
}
