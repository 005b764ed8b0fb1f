// GGUF adapters, converted from PEFT's, against the numbers that belong to those: on bases that are folders and on bases that are GGUF files.

import assert from "node:assert/strict";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { openAdapter } from "../src/adapters/open.js";
import { FormatError } from "../src/core/errors.js";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import { verifyModel } from "../src/engine/core/verify/verify.js";
import { convertAdapterToGguf } from "./support/gguf-adapter-converter.js";
import { convertToGguf } from "./support/gguf-converter.js";
import { type GgufTensor, type GgufValue, writeGguf } from "./support/gguf-writer.js";

const ADAPTERS = "../shared/goldens-lora";
const BASES = "../shared/goldens";
const folder = mkdtempSync(join(tmpdir(), "pagoda-gguf-adapters-"));
after(() => rmSync(folder, { recursive: true }));
const device = new ReferenceDevice();

if (!existsSync(ADAPTERS)) test(`adapters of ${ADAPTERS}`, { skip: `${ADAPTERS} is not here` });
else {
  for (const name of readdirSync(ADAPTERS)) {
    test(`${name} as GGUF gives the same numbers`, async () => {
      const from = join(ADAPTERS, name);
      const { base } = JSON.parse(readFileSync(join(from, "golden.json"), "utf8")) as { base: string };
      const own = join(folder, name);
      mkdirSync(own);
      const file = join(own, "adapter.gguf");
      copyFileSync(join(from, "golden.json"), join(own, "golden.json"));
      writeFileSync(file, convertAdapterToGguf(from, join(BASES, base)));
      const result = await verifyModel(join(BASES, base), device, { adapter: file, tolerance: 2e-4, chunk: null });
      assert.ok(result.isOk, JSON.stringify(result.cases.filter((found) => !found.isOk)));
    });
  }

  test("on a base that is a GGUF file, whose rows were moved too; a folder with one file is that file", async () => {
    const own = join(folder, "llama-all-r16");
    const base = join(folder, "llama.gguf");
    writeFileSync(base, convertToGguf(join(BASES, "llama"), "f32"));
    const result = await verifyModel(base, device, { adapter: own, tolerance: 2e-4, chunk: null });
    assert.ok(result.isOk, JSON.stringify(result.cases.filter((found) => !found.isOk)));
  });
}

const tensor = (name: string, ...shape: number[]): GgufTensor => {
  const bytes = new Uint8Array(4 * shape.reduce((product, size) => product * size, 1));
  return { name, dtype: "f32", shape, bytes };
};
const ALPHA = { type: 6, bytes: Buffer.from(Float32Array.of(1.5).buffer) };
const METADATA: Record<string, GgufValue> = {
  ...{ "general.type": "adapter", "general.architecture": "llama" },
  ...{ "adapter.type": "lora", "adapter.lora.alpha": ALPHA },
};
const CONFIG = { num_attention_heads: 2, num_key_value_heads: 1, hidden_size: 8 };
const PAIR = [tensor("blk.1.attn_q.weight.lora_a", 3, 8), tensor("blk.1.attn_q.weight.lora_b", 8, 3)];

function open(change: Record<string, GgufValue>, tensors: readonly GgufTensor[] = PAIR) {
  const path = join(folder, "made.gguf");
  writeFileSync(path, writeGguf({ ...METADATA, ...change }, tensors));
  return openAdapter(path, CONFIG);
}

test("names, ranks and the scale are read, fractions too; an alpha of 0 is none", () => {
  const adapter = open({});
  const [pair] = adapter.pairs;
  assert.deepEqual([pair!.module, pair!.rank, pair!.scale], ["model.layers.1.self_attn.q_proj", 3, 0.5]);
  adapter.close();
  const unscaled = open({ "adapter.lora.alpha": { type: 6, bytes: Buffer.alloc(4) } });
  assert.equal(unscaled.pairs[0]!.scale, 1);
  unscaled.close();
});

test("what is not served is refused by the key's or the tensor's name", () => {
  const refused = (change: Record<string, GgufValue>, tensors?: readonly GgufTensor[]): unknown[] => {
    try {
      open(change, tensors).close();
    } catch (error) {
      assert.ok(error instanceof FormatError);
      return [error.code, error.details.param ?? error.details.tensor];
    }
    assert.fail("it was not refused");
  };
  const option = "unsupported_model_option";
  assert.deepEqual(refused({ "general.type": "model" }), [option, "general.type"]);
  assert.deepEqual(refused({ "adapter.type": "control_vector" }), [option, "adapter.type"]);
  assert.deepEqual(refused({ "general.architecture": "toString" }), [option, "general.architecture"]);
  assert.deepEqual(refused({ "adapter.lora.alpha": "many" }), [option, "adapter.lora.alpha"]);
  const alora = "adapter.alora.invocation_tokens";
  assert.deepEqual(refused({ [alora]: [1, 2] }), [option, alora]);
  const a = "blk.0.attn_q.weight.lora_a";
  assert.deepEqual(refused({}, [tensor(a, 3, 8)]), ["tensor_missing", "blk.0.attn_q.weight.lora_b"]);
  const b = tensor("blk.0.attn_q.weight.lora_b", 8, 4);
  assert.deepEqual(refused({}, [tensor(a, 3, 8), b]), ["tensor_mismatch", b.name]);
  assert.deepEqual(refused({}, [tensor("blk.0.attn_q.weight", 8, 8)]), ["adapter_unfit", "blk.0.attn_q.weight"]);
  for (const name of ["blk.0.ffn_gate_exps", "blk.0.nothing"])
    assert.deepEqual(refused({}, [tensor(`${name}.weight.lora_a`, 3, 8), tensor(`${name}.weight.lora_b`, 8, 3)]), [
      ...[option, "tensor"],
    ]);
});
