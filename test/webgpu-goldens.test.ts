// Golden checkpoints and the invariance suite on the WebGPU device, where there is an adapter: some of them in every run, all by
// `npm run test:webgpu`.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { verifyModel } from "../src/engine/core/verify/verify.js";
import { knownArchitectures } from "../src/models/registry.js";
import { runInvariance } from "./support/invariance.js";
import { LogitLedger } from "./support/logit-ledger.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";
import { openWebGpu } from "./support/webgpu.js";

const isWhole = process.env.PAGODA_WEBGPU_TESTS === "1";
const FOLDERS = ["test/goldens", "test/goldens/variants", "../shared/goldens", "../shared/goldens2"];
/** Whose ops differ most: windows, latent attention and experts, recurrent layers, sinks. */
const SELECTION = /^(gemma3|deepseek-v3|qwen3-next|gpt-oss)$/;

const { device, reason } = await openWebGpu("adapter");
after(() => device?.close());

for (const folder of FOLDERS.filter((path) => existsSync(path))) {
  const models = readdirSync(folder).filter((name) => isDecoder(join(folder, name)));
  for (const model of models.filter((name) => isWhole || (SELECTION.test(name) && folder.startsWith("test/")))) {
    test(`${folder}/${model} on webgpu`, { skip: device === null ? reason : false }, async () => {
      const result = await verifyModel(join(folder, model), device!, { tolerance: 2e-4, chunk: 16 });
      assert.ok(result.isOk, JSON.stringify(result.cases));
      for (const { chunkDifference } of result.cases) assert.equal(chunkDifference, 0, "chunking changed the logits");
    });
  }
}

if (isWhole && device !== null)
  for (const [dtype, quantize, kvDtype] of [
    ["BF16", "none", "f16"],
    ["F32", "q4", "i8"],
  ] as const) {
    const model = writeTinyCheckpoint({ hidden: 96, heads: 6, kvHeads: 2, ffn: 160, dtype });
    const name = `webgpu, ${quantize === "none" ? dtype : quantize} weights, ${kvDtype} KV`;
    runInvariance({ name, model, ledger: new LogitLedger(), config: { device: "webgpu", quantize, kvDtype } });
  }

/** A golden of a model that generates. */
function isDecoder(path: string): boolean {
  if (!existsSync(join(path, "golden.json"))) return false;
  const { architectures } = JSON.parse(readFileSync(join(path, "config.json"), "utf8")) as { architectures?: string[] };
  return architectures === undefined || architectures.some((name) => knownArchitectures().includes(name));
}
