// The golden checkpoints as GGUF files, run whole: container, configuration, names, rearrangements and families together must
// give the logits that Hugging Face gives for the folder; quantised files those of the values they stand for.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { ENCODERS as CATALOGUED_ENCODERS } from "../scripts/docs/encoder-catalog.js";
import { CATALOG } from "../scripts/docs/model-catalog.js";
import { ReferenceDevice } from "../src/device/reference/reference-device.js";
import { verifyModel } from "../src/engine/core/verify/verify.js";
import { openCpu } from "./support/cpu.js";
import { convertToGguf, type MatrixDtype } from "./support/gguf-converter.js";
import { ENCODER_ARCHITECTURE } from "./support/gguf-encoders.js";
import { ARCHITECTURE, FIRST_DECODERS } from "./support/gguf-names.js";
import type { GgufTensor } from "./support/gguf-writer.js";

const GOLDENS = ["../shared/goldens", "../shared/goldens2", "test/goldens/variants"];
const skip = GOLDENS.every((folder) => existsSync(folder)) ? false : `no golden checkpoints at ${GOLDENS.join(", ")}`;
const goldenFolder = (name: string): string => join(GOLDENS.find((folder) => existsSync(join(folder, name)))!, name);
const scratch = mkdtempSync(join(tmpdir(), "pagoda-gguf-forward-"));
// That the devices agree is in goldens.test.ts: the quickest runs the files.
const device = (await openCpu(1)).device ?? new ReferenceDevice();
after(() => {
  device.close();
  rmSync(scratch, { recursive: true });
});

interface Case {
  readonly prompt: readonly number[];
  readonly greedy?: readonly number[];
}

/** The cases of at most `maxTokens` tokens. */
async function verify(name: string, dtype: MatrixDtype, { isDecoded = false, maxTokens = 1e9, on = device } = {}) {
  const folder = mkdtempSync(join(scratch, name));
  writeFileSync(join(folder, "model.gguf"), convertToGguf(goldenFolder(name), dtype, isDecoded));
  const golden = JSON.parse(readFileSync(join(goldenFolder(name), "golden.json"), "utf8")) as { cases: Case[] };
  const cases = golden.cases.filter(({ prompt, greedy = [] }) => prompt.length + greedy.length <= maxTokens);
  writeFileSync(join(folder, "golden.json"), JSON.stringify({ ...golden, cases }));
  return (await verifyModel(folder, on)).cases;
}

// smollm3 is missing: a GGUF file cannot say which layers have no rope, and its golden has others than the usual ones.
const DECODERS = [
  ...FIRST_DECODERS,
  "qwen2-moe",
  "qwen3-next",
  "qwen3.5",
  "qwen3.5-moe",
  "lfm2",
  "deepseek-v3",
  "ministral3",
  "seed-oss",
  "ernie4.5",
  "hunyuan",
  "glm4",
  "exaone4",
  "arcee",
  "glm4-moe",
  "olmoe",
  "olmo3",
  "gemma3n",
  "gemma4",
  "gemma4-e",
  "gemma4-experts",
  "granite-moe",
  "granite4-hybrid",
  "falcon-h1",
  "mamba2",
  "nemotron-h",
  "nemotron",
  "lfm2-moe",
  "minimax-m2",
  "ernie4.5-moe",
  "cohere2",
  "stablelm",
  "gpt-neox",
  "phi",
  "starcoder2",
  "apertus",
  "bitnet",
  "deepseek-v2",
  "glm4-moe-lite",
  "mistral4",
  "gemma-first",
  "glm-partial",
  "cohere-normed",
  "granite-moe-shared",
];
for (const name of DECODERS) {
  test(`${name} as GGUF gives the golden logits and tokens`, { skip }, async () => {
    for (const { index, logitDifference, misses } of await verify(name, "f32")) {
      assert.ok(logitDifference! < 1e-3, `case ${index}: ${logitDifference}`);
      assert.deepEqual(misses, [], `case ${index}`);
    }
  });
}

const ENCODERS = [
  "bert",
  "xlm-roberta",
  "xlm-roberta-reranker",
  "modernbert",
  "modernbert-reranker",
  "embeddinggemma",
  "roberta-scores",
  "distilbert-plain",
];
for (const name of ENCODERS) {
  test(`${name} as GGUF gives the golden vectors or scores`, { skip }, async () => {
    for (const { index, logitDifference } of await verify(name, "f32")) {
      assert.ok(logitDifference! < 2e-4, `case ${index}: ${logitDifference}`);
    }
  });
}

test("every GGUF architecture of docs/reference/models.md has a file here", { skip }, async () => {
  const elsewhere: Record<string, string> = {
    "nomic-bert": "nomic-bert.test.ts",
    smollm3: "gguf-model.test.ts, its tensors and configuration",
    llama4: "below",
    qwen2vl: "qwen2 under another name",
    qwen3vl: "qwen3 under another name",
    nemotron_h: "nemotron_h_moe without experts",
  };
  const made = [...DECODERS, ...ENCODERS].map((name) => {
    const { architectures } = JSON.parse(readFileSync(join(goldenFolder(name), "config.json"), "utf8"));
    return { ...ARCHITECTURE, ...ENCODER_ARCHITECTURE }[architectures[0] as string]!;
  });
  const documented = [...Object.values(CATALOG), ...CATALOGUED_ENCODERS].flatMap(({ gguf }) => gguf?.split(", ") ?? []);
  const missing = new Set(documented.filter((name) => !made.includes(name)));
  assert.deepEqual([...missing].sort(), Object.keys(elsewhere).sort());
});

test("a tensor that nothing reads is refused by name, and so is one that the architecture does not have", {
  skip,
}, async () => {
  const scale: GgufTensor = { name: "", dtype: "f32", shape: [4], bytes: new Uint8Array(16) };
  const open = async (name: string) => {
    const folder = mkdtempSync(join(scratch, "more"));
    const file = convertToGguf(goldenFolder("llama"), "f32", false, undefined, [{ ...scale, name }]);
    writeFileSync(join(folder, "model.gguf"), file);
    writeFileSync(join(folder, "golden.json"), JSON.stringify({ cases: [{ prompt: [1] }] }));
    return verifyModel(folder, device);
  };
  await assert.rejects(
    () => open("blk.0.attn_q_norm.weight"),
    /tensor_unread|reads tensor model\.layers\.0\.self_attn\.q_norm\.weight/,
  );
  await assert.rejects(() => open("blk.0.attn_new.weight"), /tensor = blk\.0\.attn_new\.weight/);
});

test("a reranker that is a decoder scores by two rows of its head", { skip }, async () => {
  const name = "qwen3-yarn"; // whose head is not its embedding
  const [yes, no] = [17, 42];
  const folder = mkdtempSync(join(scratch, "judge"));
  writeFileSync(join(folder, "model.gguf"), convertToGguf(goldenFolder(name), "f32", false, [yes, no]));
  const golden = JSON.parse(readFileSync(join(goldenFolder(name), "golden.json"), "utf8"));
  const cases = golden.cases.map(({ prompt, last_logits: logits }: { prompt: number[]; last_logits: number[] }) => {
    return { prompt, scores: [logits[yes]! - logits[no]!] };
  });
  writeFileSync(join(folder, "golden.json"), JSON.stringify({ cases }));
  const result = await verifyModel(folder, device);
  assert.equal(result.architecture, "Qwen3ForSequenceClassification");
  for (const { logitDifference } of result.cases) assert.ok(logitDifference! < 1e-3, `${logitDifference}`);
});

test("a cross-encoder whose pooler its GGUF file lacks is refused", { skip }, async () => {
  await assert.rejects(() => verify("bert-reranker", "f32"), /pooler\.dense\.\w+ is missing/);
});

test("llama4 as GGUF gives the golden logits and tokens up to the first chunk's end, which a file cannot state", {
  skip,
}, async () => {
  const cases = await verify("llama4", "f32", { maxTokens: 32 });
  assert.equal(cases.length, 2);
  for (const { index, logitDifference, misses } of cases) {
    assert.ok(logitDifference! < 1e-3, `case ${index}: ${logitDifference}`);
    assert.deepEqual(misses, [], `case ${index}`);
  }
});

test("f16 files of bf16 checkpoints lose next to nothing", { skip }, async () => {
  for (const name of ["llama", "gpt-oss"]) {
    for (const { index, logitDifference } of await verify(name, "f16")) {
      assert.ok(logitDifference! < 2e-3, `${name} case ${index}: ${logitDifference}`);
    }
  }
});

test("quantised files give the logits of the values they stand for, to the bit", { skip }, async () => {
  for (const [name, dtype] of [
    ["llama", "q4_0"],
    ["gpt2", "q8_0"],
    ["gpt-oss", "q8_0"],
  ] as const) {
    const on = new ReferenceDevice(); // which alone takes codes for the numbers they stand for, to the bit
    const packed = (await verify(name, dtype, { on })).map(({ logitDifference }) => logitDifference!);
    const decoded = (await verify(name, dtype, { on, isDecoded: true })).map(({ logitDifference }) => logitDifference!);
    assert.deepEqual(packed, decoded, `${name} ${dtype}`);
    assert.ok(
      packed.every((difference) => difference > 1e-3),
      "quantising changes something",
    );
  }
});
