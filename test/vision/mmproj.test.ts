// Eyes in a file of their own: the towers of goldens, converted to mmproj files, give the numbers they give in their folders.

import assert from "node:assert/strict";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { PagodaError } from "../../src/core/errors.js";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import { verifyModel } from "../../src/engine/core/verify/verify.js";
import { mmprojBeside } from "../../src/formats/gguf/mmproj/mmproj.js";
import { ModelFolder } from "../../src/formats/hf/model-folder.js";
import { convertToGguf } from "../support/gguf-converter.js";
import { convertToMmproj } from "../support/mmproj-converter.js";
import { writeSafetensors } from "../support/safetensors-writer.js";

const device = new ReferenceDevice();
const folder = mkdtempSync(join(tmpdir(), "pagoda-mmproj-"));
after(() => rmSync(folder, { recursive: true }));

for (const goldens of ["test/goldens-vision", "../shared/goldens-vision"]) {
  for (const model of existsSync(goldens) ? readdirSync(goldens) : []) {
    test(`${goldens}/${model} with its eyes in an mmproj file`, async () => {
      const path = join(goldens, model);
      const mmproj = join(folder, `${model}.gguf`);
      writeFileSync(mmproj, convertToMmproj(path));
      const plain = await verifyModel(path, device, { chunk: null });
      const { cases } = await verifyModel(path, device, { mmproj, chunk: null });
      for (const [i, { pixelDifference, logitDifference }] of cases.entries()) {
        assert.ok(pixelDifference !== null && pixelDifference <= 1e-5, `pixels of case ${i}`);
        assert.ok(Math.abs(logitDifference! - plain.cases[i]!.logitDifference!) < 2e-5, `logits of case ${i}`);
      }
    });
  }
}

/** The text part of a folder as a folder of its own. */
function textFolder(path: string): string {
  const own = join(folder, "text");
  mkdirSync(own);
  const model = new ModelFolder(path);
  const { text_config, architectures, tie_word_embeddings } = model.config as Record<string, Record<string, unknown>>;
  writeFileSync(join(own, "config.json"), JSON.stringify({ ...text_config, architectures, tie_word_embeddings }));
  const source = model.openTensors();
  const tensors = new Map(
    [...source.names()]
      .filter((name) => /language_model|lm_head/.test(name))
      .map((name) => {
        const tensor = source.get(name);
        const data = tensor.bytes();
        return [name.replace("language_model.", ""), { dtype: tensor.dtype.toUpperCase(), shape: tensor.shape, data }];
      }),
  );
  writeSafetensors(join(own, "model.safetensors"), tensors);
  source.close();
  return own;
}

test("a GGUF model with an mmproj beside it sees as its folder does", async () => {
  const path = "test/goldens-vision/qwen3vl";
  const gguf = join(folder, "gguf");
  cpSync(path, gguf, {
    recursive: true,
    filter: (file) => !file.endsWith("safetensors") && !file.endsWith("config.json"),
  });
  const tokens = Array.from({ length: 320 }, (_, id) => (id === 10 ? "<|image_pad|>" : `t${id}`));
  const vocabulary = {
    "qwen3vl.rope.dimension_sections": [6, 5, 5, 0],
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "qwen2",
    "tokenizer.ggml.tokens": tokens,
    "tokenizer.ggml.token_type": tokens.map((_, id) => (id === 10 ? 3 : 1)),
    "tokenizer.ggml.merges": ["t 1"],
  };
  const model = join(gguf, "Qwen3-VL-tiny.gguf");
  writeFileSync(model, convertToGguf(textFolder(path), "f32", false, undefined, [], vocabulary));
  writeFileSync(join(gguf, "mmproj-Qwen3-VL-tiny-F16.gguf"), convertToMmproj(path, "f16"));
  assert.equal(mmprojBeside(model), join(gguf, "mmproj-Qwen3-VL-tiny-F16.gguf"));
  writeFileSync(join(gguf, "mmproj-Qwen3-VL-tiny-F32.gguf"), convertToMmproj(path));
  const { cases, isOk } = await verifyModel(model, device, { tolerance: 5e-4 });
  assert.ok(isOk, JSON.stringify(cases));
});

test("files that are no eyes, or eyes of unknown kinds, are refused by name", async () => {
  const codeOf = async (mmproj: string): Promise<string> => {
    try {
      await verifyModel("test/goldens-vision/qwen3vl", device, { mmproj });
      return "opened";
    } catch (error) {
      assert.ok(error instanceof PagodaError, `${error}`);
      return error.code;
    }
  };
  const eyes = readFileSync(join(folder, "qwen3vl.gguf"));
  const changed = (from: string, to: string): string => {
    const file = join(folder, "changed.gguf");
    writeFileSync(file, Buffer.from(eyes.toString("latin1").replace(from, to), "latin1"));
    return file;
  };
  assert.equal(await codeOf(changed("qwen3vl_merger", "qwen9vl_merger")), "unsupported_model_option");
  assert.equal(await codeOf(changed("v.blk.0.ln1.weight", "v.blk.0.ln9.weight")), "unsupported_model_option");
  assert.equal(await codeOf(changed("v.blk.0.ln1.weight", "v.blk.9.ln1.weight")), "tensor_missing");
  assert.equal(await codeOf(join(folder, "gguf", "Qwen3-VL-tiny.gguf")), "unsupported_model_option");
});
