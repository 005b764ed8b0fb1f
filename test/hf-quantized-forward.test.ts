// A quantised folder run whole: the family sees plain weights, and the logits are those of the values the integers stand for.

import assert from "node:assert/strict";
import { copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { toFloat32 } from "../src/core/dequantize/dequantize.js";
import { f16ToF32, f32ToF16 } from "../src/core/dequantize/small-floats.js";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import { verifyModel } from "../src/engine/core/verify/verify.js";
import { ModelFolder } from "../src/formats/hf/model-folder.js";
import { type Coded, compressed, gptq, valuesOf } from "./support/packed-checkpoints.js";
import { type SafetensorsEntry, writeSafetensors } from "./support/safetensors-writer.js";

const GOLDEN = "../shared/goldens/llama";
const skip = existsSync(GOLDEN) ? false : `no golden checkpoint at ${GOLDEN}`;
const scratch = mkdtempSync(join(tmpdir(), "pagoda-hf-forward-"));
after(() => rmSync(scratch, { recursive: true }));

/** Symmetric 4 bits, a scale per 32 inputs. */
function quantise(values: Float32Array, out: number, inputs: number): Coded {
  const groups = Math.ceil(inputs / 32);
  const groupOf = Array.from({ length: inputs }, (_, i) => Math.floor(i / 32));
  const scales = new Array<number>(out * groups).fill(0);
  values.forEach((value, k) => {
    const g = Math.floor(k / inputs) * groups + groupOf[k % inputs]!;
    scales[g] = Math.max(scales[g]!, f16ToF32(f32ToF16(Math.abs(value) / 7)));
  });
  const codes = Array.from(values, (value, k) => {
    const scale = scales[Math.floor(k / inputs) * groups + groupOf[k % inputs]!]!;
    return Math.min(15, Math.max(0, 8 + Math.round(value / scale)));
  });
  return { out, in: inputs, bits: 4, codes, groupOf, groups, scales, zeros: scales.map(() => 8) };
}

/** The golden's logit differences when its projections are packed by `pack`; null: the values they stand for, as f32. */
async function differences(
  quantization: object | null,
  pack: (name: string, m: Coded) => [string, SafetensorsEntry][],
): Promise<number[]> {
  const hf = new ModelFolder(GOLDEN);
  const source = hf.openTensors();
  const entries = new Map<string, SafetensorsEntry>();
  for (const name of source.names()) {
    const { shape } = source.get(name);
    const values = toFloat32(source.get(name));
    if (!name.endsWith("_proj.weight") || shape[1]! % 32 !== 0) {
      entries.set(name, { dtype: "F32", shape, data: values });
      continue;
    }
    const coded = quantise(values, shape[0]!, shape[1]!);
    if (quantization === null) entries.set(name, { dtype: "F32", shape, data: valuesOf(coded) });
    else for (const [own, entry] of pack(name.slice(0, -".weight".length), coded)) entries.set(own, entry);
  }
  source.close();
  const folder = mkdtempSync(join(scratch, "m-"));
  const config = quantization === null ? hf.config : { ...hf.config, quantization_config: quantization };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeSafetensors(join(folder, "model.safetensors"), entries);
  copyFileSync(join(GOLDEN, "golden.json"), join(folder, "golden.json"));
  const { cases } = await verifyModel(folder, new ReferenceDevice());
  return cases.map(({ logitDifference }) => logitDifference!);
}

test("gptq and compressed-tensors folders run as the weights they stand for, to the bit", { skip }, async () => {
  const plain = await differences(null, () => []);
  assert.ok(
    plain.every((difference) => difference > 1e-2),
    "quantising changes something",
  );
  const gptqConfig = { quant_method: "gptq", bits: 4, group_size: 32, sym: true, desc_act: false };
  assert.deepEqual(await differences(gptqConfig, (name, m) => gptq(name, m, 1)), plain);
  const config_groups = {
    g: { weights: { num_bits: 4, type: "int", strategy: "group", group_size: 32, symmetric: true } },
  };
  const compressedConfig = { quant_method: "compressed-tensors", format: "pack-quantized", config_groups };
  assert.deepEqual(await differences(compressedConfig, (name, m) => compressed(name, m, true)), plain);
});
