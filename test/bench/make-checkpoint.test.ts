// The generator's files are read as any other checkpoint, and all formats of one seed hold the same weights.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { makeVocabulary } from "../../bench/checkpoint/vocabulary.js";
import { type CheckpointOptions, makeCheckpoint } from "../../bench/make-checkpoint.js";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import { openCheckpoint } from "../../src/engine/checkpoint.js";
import { openChatCheckpoint } from "../../src/engine/client/chat-checkpoint.js";
import { ModelRunner } from "../../src/engine/core/verify/model-runner.js";
import { familyOf } from "../../src/models/registry.js";

const folder = mkdtempSync(join(tmpdir(), "pagoda-make-"));
after(() => rmSync(folder, { recursive: true, force: true }));

function make(type: CheckpointOptions["type"], name: string, seed = 1): string {
  const out = join(folder, name);
  makeCheckpoint({ shape: "tiny", type, seed, out });
  return out;
}

/** Logits of the last of some tokens. */
async function logitsOf(path: string): Promise<Float32Array> {
  const checkpoint = openCheckpoint(path);
  const family = familyOf(checkpoint.config, checkpoint.configFile);
  const device = new ReferenceDevice();
  const source = checkpoint.openTensors();
  const model = family.load(family.parseConfig(checkpoint.config, checkpoint.configFile), {
    device,
    source,
    capacity: { maxTokens: 32, maxLogitRows: 1 },
    quantize: "none",
  });
  source.close();
  const runner = new ModelRunner({ device, model, maxTokens: 32, maxLogitRows: 1, numSequences: 1, maxLength: 32 });
  const tokens = Array.from({ length: 20 }, (_, i) => (i * 37) % 512);
  return runner.run([{ sequence: 0, tokens, start: 0, end: 20, logitsFrom: 19 }]);
}

function largestDifference(a: Float32Array, b: Float32Array): number {
  return a.reduce((max, value, i) => Math.max(max, Math.abs(value - b[i]!)), 0);
}

test("a GGUF file and a folder hold the same model", async () => {
  const expected = await logitsOf(make("f32", "f32"));
  assert.ok(expected.some((value) => Math.abs(value) > 0.01));
  assert.ok(largestDifference(await logitsOf(make("f32", "f32.gguf")), expected) < 1e-5);
  assert.ok(largestDifference(await logitsOf(make("f16", "f16.gguf")), expected) < 1e-5, "weights are f16 values");
  assert.ok(largestDifference(await logitsOf(make("bf16", "bf16")), expected) < 0.02);
  assert.ok(largestDifference(await logitsOf(make("q8_0", "q8.gguf")), expected) < 0.02);
  assert.ok(largestDifference(await logitsOf(make("q4_0", "q4.gguf")), expected) < 0.2);
  assert.ok(largestDifference(await logitsOf(make("fp8", "fp8")), expected) < 0.1);
});

test("the same seed writes the same bytes", () => {
  const [a, b, c] = [make("q8_0", "a.gguf"), make("q8_0", "b.gguf"), make("q8_0", "c.gguf", 2)];
  assert.ok(readFileSync(a).equals(readFileSync(b)));
  assert.ok(!readFileSync(a).equals(readFileSync(c)));
});

test("both tokenizers read text, agree and give it back", () => {
  const text = "the rest of it, with 12 numbers\n";
  const [json, gguf] = [make("f16", "text"), make("f16", "text.gguf")].map((path) => openChatCheckpoint(path));
  const ids = json!.requireTokenizer().encode(text);
  assert.deepEqual(gguf!.requireTokenizer().encode(text), ids);
  assert.ok(ids.length < text.length, "merges are used");
  assert.equal(gguf!.requireTokenizer().decode(ids), text);
  assert.match(gguf!.chatTemplate!.render([{ role: "user", content: "hi" }]), /<\|im_start\|>user\nhi<\|im_end\|>/);
});

test("vocabularies come in the sizes of the shapes, without repeats", () => {
  for (const size of [259, 512, 49152, 128256]) {
    const { tokens, merges } = makeVocabulary(size);
    assert.equal(new Set(tokens).size, size);
    assert.equal(merges.length, size - 259);
  }
  assert.throws(() => makeVocabulary(200), RangeError);
});

test("each type has its kind of file", () => {
  assert.throws(() => make("q4_0", "q4"), /--type is q4_0; it must be f32, f16, bf16 or fp8 for a folder/);
  assert.throws(() => make("fp8", "fp8.gguf"), /--type is fp8; it must be .* for a GGUF file/);
});
