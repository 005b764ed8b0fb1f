// Every golden checkpoint on every device that is here: the small ones of this project, the variants of each family made by
// Hugging Face transformers, the 17 families of ../shared where it is present, and the bundled model.

import assert from "node:assert/strict";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { BUNDLED_MODEL } from "../src/config/engine-config.js";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import { openDevice } from "../src/engine/core/load/devices.js";
import { type VerifyResult, verifyModel } from "../src/engine/core/verify/verify.js";
import { knownArchitectures } from "../src/models/registry.js";
import { openCpu, openExactCpu, roundsToBf16 } from "./support/cpu.js";

const OWN = "test/goldens";
const VARIANTS = "test/goldens/variants";
const SHARED = "../shared/goldens";
const SHARED2 = "../shared/goldens2";
const LEAST: Record<string, number> = { [OWN]: 5, [VARIANTS]: 45, [SHARED]: 17, [SHARED2]: 45 };
/** Every family is held to this against Hugging Face, whatever `pagoda verify` allows a user's model. */
const TIGHT = { tolerance: 2e-4 };

const cpu = await openExactCpu();
const best = await openCpu();
const wasm = await openDevice({ device: "wasm", threads: 2 });
after(() => wasm.close());
const skipsCpu = cpu.device === null;
const everywhere = () => true;
/** The kernels of wasm are those of cpu: the families whose ops differ most stand for all, unless all are asked for. */
const SELECTION = /^(llama|gemma3|mixtral|deepseek-v3|qwen3-next|mamba2|gpt-oss.*)$/;
const MIXTURE = /moe|oss|deepseek|mistral4|qwen3-next|experts/;
const isForWasm = (model: string) => process.env.PAGODA_LONG_TESTS !== undefined || SELECTION.test(model);
const devices = [
  { name: "reference", device: new ReferenceDevice(), skip: false, isFor: everywhere },
  { name: "cpu", device: cpu.device, skip: cpu.reason, isFor: everywhere },
  { name: "wasm", device: wasm, skip: false, isFor: isForWasm },
  ...(roundsToBf16(best.device) ? [{ name: "amx", device: best.device, skip: false, isFor: everywhere }] : []),
];

for (const folder of [OWN, VARIANTS, SHARED, SHARED2]) {
  if (!existsSync(folder)) {
    test(`goldens of ${folder}`, { skip: `${folder} is not here` });
    continue;
  }
  const models = readdirSync(folder).filter((name) => isDecoder(join(folder, name)));
  for (const { name, device, skip, isFor } of devices) {
    for (const model of models.filter(isFor)) {
      // A router that rounds chooses another expert where two are nearly equal, and then nothing is comparable.
      const mayStray = roundsToBf16(device) && MIXTURE.test(model) && "routers round on tiles";
      test(`${folder}/${model} on ${name}`, { skip: skip || mayStray }, async () => {
        // With 4-bit weights the kernels round activations to 8 bits.
        const isRounded = (name !== "reference" && model.endsWith("mxfp4")) || roundsToBf16(device);
        // In chunks on the fast devices; on the reference test/model-invariance.test.ts cuts a family of every kind.
        const chunk = name === "reference" && !skipsCpu ? null : 16;
        const options = isRounded ? { tolerance: 0.2 } : TIGHT;
        assertRight(await verifyModel(join(folder, model), device!, { ...options, chunk }));
      });
    }
  }
  test(`${folder} is complete`, () => assert.ok(models.length >= LEAST[folder]!, models.join(" ")));
}

test("the bundled model answers as its golden.json says, to the last token", async () => {
  // Hundreds of tokens: on the reference device alone this takes a while.
  assertRight(await verifyModel(BUNDLED_MODEL, cpu.device ?? new ReferenceDevice()));
});

test("one changed weight is noticed", async () => {
  const copy = mkdtempSync(join(tmpdir(), "pagoda-golden-"));
  try {
    cpSync(join(OWN, "llama"), copy, { recursive: true });
    const file = join(copy, "model.safetensors");
    const bytes = readFileSync(file);
    bytes[bytes.length - 1]! ^= 0x40; // the exponent of the last number
    writeFileSync(file, bytes);
    const result = await verifyModel(copy, new ReferenceDevice());
    assert.equal(result.isOk, false);
  } finally {
    rmSync(copy, { recursive: true });
  }
});

/** A golden of a model that generates; encoders have tests of their own. */
function isDecoder(path: string): boolean {
  if (!existsSync(join(path, "golden.json"))) return false;
  const { architectures } = JSON.parse(readFileSync(join(path, "config.json"), "utf8")) as { architectures?: string[] };
  return architectures === undefined || architectures.some((name) => knownArchitectures().includes(name));
}

function assertRight(result: VerifyResult): void {
  for (const { index, logitDifference, logprobDifference, chunkDifference, misses, isOk } of result.cases) {
    const found = JSON.stringify({ logitDifference, logprobDifference, misses });
    assert.ok(isOk, `case ${index}: ${found}, tolerance ${result.tolerance}`);
    assert.equal(chunkDifference, 0, `case ${index}: chunking changed the logits`);
  }
}
