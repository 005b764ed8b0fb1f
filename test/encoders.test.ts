// Models that embed and score, through the engine: recipes of sentence-transformers folders, pairs, cutting, and the same bits in
// every company.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { createEngine } from "../src/engine/client/engine.js";
import type { Engine } from "../src/engine/types.js";
import { JsonTokenizer } from "../src/tokenizer/json-tokenizer.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";
import { stModule, writeDense, writeTinyEncoder } from "./support/tiny-encoder.js";

const OPTIONS = { device: "reference", worker: false, pageSize: 4 } as const;
const TEXTS = [
  "the cat sat",
  "a dog ran far",
  "the cat sat on the mat and the dog ran far far far",
  "x",
  "dog",
  "on the mat",
];

let plain: Engine;
before(async () => {
  plain = await createEngine({ ...OPTIONS, model: writeTinyEncoder({ max_position_embeddings: 160 }) });
});
after(() => plain.close());

test("a text's vector is the same bits alone and beside others, and nothing of it stays", async () => {
  const { vectors, promptTokens } = await plain.embed(TEXTS);
  assert.ok(promptTokens > TEXTS.length * 3, "every text has [CLS] and [SEP]");
  for (const [i, text] of TEXTS.entries()) {
    const alone = await plain.embed([text]);
    assert.deepEqual(vectors[i], alone.vectors[0], text);
  }
  const { pagesUsed, pagesCached } = await plain.stats();
  assert.deepEqual({ pagesUsed, pagesCached }, { pagesUsed: 0, pagesCached: 0 });
  assert.ok(
    plain.inspect.history().every(({ rows }) => rows.every(({ start }) => start === 0)),
    "no text is cut",
  );
  await plain.embed(["x ".repeat(140)]);
  const { step, rows } = plain.inspect.history().at(-1)!;
  const [plan] = (await plain.inspect.plan(step))!;
  const firstTile = plan!.items.filter(({ qStart }) => qStart === 0);
  assert.ok(firstTile.length < plan!.items.length);
  assert.equal(
    Math.max(...firstTile.map(({ kvEnd }) => kvEnd)),
    rows[0]!.contextLen,
    "every token sees the whole text",
  );
});

test("a list with a text that is refused is refused whole: no other is left running, or rejects where nobody waits", async () => {
  const unheard: unknown[] = [];
  const listen = (reason: unknown): number => unheard.push(reason);
  process.on("unhandledRejection", listen);
  const controller = new AbortController();
  const refused = plain.embed([[2, 3, 4], [5, 6], [1e6]], { signal: controller.signal });
  await assert.rejects(refused, { code: "token_out_of_range" });
  controller.abort();
  const { running, waiting } = await plain.stats();
  assert.deepEqual({ running, waiting }, { running: 0, waiting: 0 });
  await new Promise((resolve) => setTimeout(resolve, 20));
  process.off("unhandledRejection", listen);
  assert.deepEqual(unheard, []);
});

test("poolings of the same states", async () => {
  const text = ["the cat sat on"];
  const at = async (pooling: "first" | "last" | "mean" | "max" | "mean_sqrt_len" | "weighted_mean") =>
    (await plain.embed(text, { pooling, normalize: false })).vectors[0]!;
  const [mean, root] = [await at("mean"), await at("mean_sqrt_len")];
  assert.deepEqual((await plain.embed(text, { normalize: false })).vectors[0], mean, "of an encoder that does not say");
  const close = (a: number, b: number) => assert.ok(Math.abs(a - b) < 1e-5, `${a} ${b}`);
  for (let i = 0; i < mean.length; i++) close(root[i]!, mean[i]! * Math.sqrt(6)); // four words, [CLS], [SEP]
  const [first, last, max] = [await at("first"), await at("last"), await at("max")];
  assert.ok(max.every((value, i) => value >= Math.max(first[i]!, last[i]!)));
  assert.notDeepEqual(await at("weighted_mean"), mean);
  await assert.rejects(plain.embed(text, { pooling: "median" as "mean" }), /pooling is median/);
});

test("a folder's modules, prompts and lengths", async () => {
  const model = writeTinyEncoder(
    {},
    {
      "modules.json": [
        stModule(0, "", "Transformer"),
        stModule(1, "1_Pooling", "Pooling"),
        stModule(2, "2_Dense", "Dense"),
        stModule(3, "3_Normalize", "Normalize"),
      ],
      "1_Pooling/config.json": {
        word_embedding_dimension: 32,
        pooling_mode_cls_token: true,
        pooling_mode_mean_tokens: false,
      },
      "2_Dense/config.json": {
        in_features: 32,
        out_features: 20,
        bias: false,
        activation_function: "torch.nn.modules.linear.Identity",
      },
      "config_sentence_transformers.json": {
        prompts: { query: "query: ", passage: "document: " },
        default_prompt_name: null,
      },
      "sentence_bert_config.json": { max_seq_length: 8 },
    },
  );
  writeDense(model, 20, 32);
  const engine = await createEngine({ ...OPTIONS, model });
  try {
    const [vector] = (await engine.embed(["the cat"])).vectors;
    const [first] = (await plain.embed(["the cat"], { pooling: "first" })).vectors;
    const dense = Array.from({ length: 20 }, (_, row) =>
      first!.reduce((sum, x, i) => sum + Math.sin(row * 32 + i + 1) * x, 0),
    );
    const length = Math.hypot(...dense);
    for (const [i, value] of dense.entries()) assert.ok(Math.abs(value / length - vector![i]!) < 1e-6);

    const [short] = (await engine.embed(["the cat"], { dimensions: 5 })).vectors;
    assert.equal(short!.length, 5);
    assert.ok(Math.abs(Math.hypot(...short!) - 1) < 1e-6, "cut, then normalised");
    await assert.rejects(engine.embed(["x"], { dimensions: 21 }), /dimensions is 21.*from 1 to 20/);

    const asked = await engine.embed(["cat"], { promptName: "query" });
    assert.deepEqual(asked.vectors, (await engine.embed(["query: cat"])).vectors);
    assert.deepEqual((await engine.embed(["cat"], { inputType: "search_query" })).vectors, asked.vectors);
    const document = await engine.embed(["cat"], { inputType: "document" });
    assert.deepEqual(document.vectors, (await engine.embed(["document: cat"])).vectors);
    await assert.rejects(engine.embed(["x"], { promptName: "other" }), /promptName is other.*query, passage/);

    const cut = await engine.embed(["cat ".repeat(300)], { truncate: true });
    assert.equal(cut.promptTokens, 8, "max_seq_length");
    assert.deepEqual(cut.vectors, (await engine.embed(["cat cat cat cat cat cat"])).vectors, "[SEP] stays");
    assert.equal((await engine.embed(["cat ".repeat(300)], { truncate: 20 })).promptTokens, 20);
    await assert.rejects(engine.embed(["cat ".repeat(300)]), /302 tokens.*up to 64.*truncate/s);
    for (const truncate of [0, 1.5, -1]) {
      await assert.rejects(engine.embed(["cat"], { truncate }), /truncate is .*true, false or a number of tokens/);
    }
    assert.equal((await engine.embed(["cat ".repeat(62)])).promptTokens, 64, "all positions can be used");
  } finally {
    await engine.close();
  }
});

test("modules that are not known are refused by name", async () => {
  const modules = [stModule(0, "", "Transformer"), stModule(1, "1_CNN", "CNN")];
  const model = writeTinyEncoder({}, { "modules.json": modules });
  await assert.rejects(createEngine({ ...OPTIONS, model }), /type = CNN is not supported/);
  const dense = [stModule(0, "", "Transformer"), stModule(1, "1_Dense", "Dense")];
  const config = { in_features: 32, bias: false, activation_function: "torch.nn.modules.linear.Identity" };
  for (const out_features of [0, 2 ** 20 + 1]) {
    const files = { "modules.json": dense, "1_Dense/config.json": { ...config, out_features } };
    await assert.rejects(createEngine({ ...OPTIONS, model: writeTinyEncoder({}, files) }), /out_features.*a size/);
  }
});

test("a cross-encoder tells the texts of a pair apart, and what users write is text", async () => {
  const model = writeTinyEncoder({ architectures: ["BertForSequenceClassification"], id2label: { 0: "LABEL_0" } });
  const engine = await createEngine({ ...OPTIONS, model });
  try {
    const tokenizer = jsonTokenizer(model);
    const whole = [
      ...tokenizer.frame(true).before,
      6,
      ...tokenizer.frame(true).between,
      10,
      ...tokenizer.frame(true).after,
    ];
    assert.deepEqual(whole, [2, 6, 3, 10, 3], "[CLS] cat [SEP] dog [SEP]");
    assert.equal(tokenizer.frame(true).hasTypes, true);

    const pairs = [
      ["cat", "dog"],
      ["dog", "cat"],
      ["cat", "the dog ran"],
    ] as const;
    const { scores, promptTokens } = await engine.score(pairs);
    assert.equal(promptTokens, 5 + 5 + 7);
    assert.ok(new Set(scores).size === 3 && scores.every((score) => score > 0 && score < 1));
    const raw = await engine.score(pairs, { raw: true });
    for (const [i, score] of raw.scores.entries()) assert.ok(Math.abs(1 / (1 + Math.exp(-score)) - scores[i]!) < 1e-7);
    for (const [i, pair] of pairs.entries()) assert.deepEqual((await engine.score([pair])).scores, [scores[i]]);
    // The second text has types of its own: a single text of the same tokens is another one.
    const single = await engine.embed([[2, 6, 3, 10, 3]], { pooling: "first" });
    const [hidden] = single.vectors;
    assert.equal(hidden!.length, 32);
    assert.notDeepEqual(
      (await engine.score([["cat", "[SEP] dog"]])).scores,
      (await engine.score([["cat [SEP]", "dog"]])).scores,
    );

    const { results } = await engine.rerank("cat", ["dog", "the dog ran", "dog"], { topN: 2 });
    assert.equal(results.length, 2);
    assert.ok(results[0]!.score >= results[1]!.score);
    const dogs = (await engine.rerank("cat", ["dog", "dog"])).results;
    assert.deepEqual(
      dogs.map(({ index }) => index),
      [0, 1],
      "equals keep their order",
    );
    await assert.rejects(engine.generate("cat").result(), /cannot generate/);
  } finally {
    await engine.close();
  }
});

test("pairs need a template of two texts, and its absence is an error of the file", () => {
  const model = writeTinyEncoder();
  const file = join(model, "tokenizer.json");
  const json = JSON.parse(readFileSync(file, "utf8"));
  const { pair: _, ...single } = json.post_processor;
  for (const post_processor of [single, { type: "Sequence", processors: [{ type: "ByteLevel" }, single] }]) {
    const tokenizer = new JsonTokenizer({ file, json: { ...json, post_processor } });
    assert.deepEqual(tokenizer.frame(false).before, [2]);
    const message = /tokenizer\.json: post_processor\.pair: expected a template of two texts.*found none/;
    assert.throws(() => tokenizer.frame(true), { code: "file_corrupt", message });
  }
});

test("a cross-encoder's scores are raw where its folder says so, in any of the places for it", async () => {
  const scoreOf = async (config: Record<string, unknown>, files: Record<string, unknown> = {}, raw = false) => {
    const classifier = { architectures: ["BertForSequenceClassification"], id2label: { 0: "LABEL_0" } };
    await using engine = await createEngine({
      ...OPTIONS,
      model: writeTinyEncoder({ ...classifier, ...config }, files),
    });
    return (await engine.score([["cat", "dog"]], { raw })).scores[0]!;
  };
  const raw = await scoreOf({}, {}, true);
  const identity = "torch.nn.modules.linear.Identity";
  assert.equal(await scoreOf({ sentence_transformers: { activation_fn: identity } }), raw);
  assert.equal(await scoreOf({ sbert_ce_default_activation_function: identity }), raw);
  assert.equal(await scoreOf({}, { "config_sentence_transformers.json": { activation_fn: identity } }), raw);
  const sigmoid = { sentence_transformers: { activation_fn: "torch.nn.modules.activation.Sigmoid" } };
  assert.ok(Math.abs((await scoreOf(sigmoid)) - 1 / (1 + Math.exp(-raw))) < 1e-7);
});

test("an embedding model compares by angle; one that generates refuses", async () => {
  const { scores } = await plain.score([
    ["the cat", "the cat"],
    ["the cat", "dog"],
  ]);
  assert.ok(Math.abs(scores[0]! - 1) < 1e-6 && scores[1]! < scores[0]!);
  const engine = await createEngine({ ...OPTIONS, model: writeTinyCheckpoint() });
  try {
    await assert.rejects(engine.rerank("a", ["b"]), { code: "task_unsupported" });
    await assert.rejects(plain.generate("cat").result(), { code: "task_unsupported" });
  } finally {
    await engine.close();
  }
});

test("a causal model as a judge: the score is the difference of two logits", async () => {
  const model = writeTinyCheckpoint();
  const [yes, no] = [121, 110]; // "y" and "n" of a vocabulary of bytes
  const modules = [stModule(0, "", "Transformer"), stModule(1, "1_LogitScore", "LogitScore")];
  writeFileSync(join(model, "modules.json"), JSON.stringify(modules));
  mkdirSync(join(model, "1_LogitScore"));
  writeFileSync(join(model, "1_LogitScore/config.json"), JSON.stringify({ true_token_id: yes, false_token_id: no }));
  const engine = await createEngine({ ...OPTIONS, model, maxContext: 512 });
  try {
    const { scores } = await engine.score([["q", "d"]], { raw: true, instruction: "i" });
    const text = judgePrompt("i", "q", "d");
    const of = async (id: number) =>
      (
        await engine
          .generate(text + String.fromCharCode(id), { maxTokens: 1, temperature: 0, promptLogprobs: 0 })
          .result()
      ).promptLogprobs!.at(-1)!.logprob;
    assert.ok(Math.abs((await of(yes)) - (await of(no)) - scores[0]!) < 1e-4);
    const cut = await engine.score([["q", "d".repeat(2000)]], { truncate: true });
    assert.equal(cut.promptTokens, 512);
  } finally {
    await engine.close();
  }
});

test("decoders without a head over the vocabulary: a base model embeds, a classifier scores its last token", async () => {
  const llama = {
    hidden_size: 32,
    num_hidden_layers: 2,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    intermediate_size: 48,
    max_position_embeddings: 64,
    rms_norm_eps: 1e-6,
    rope_theta: 10000,
    tie_word_embeddings: false,
    head_dim: 8,
  };
  const base = await createEngine({ ...OPTIONS, model: writeTinyEncoder({ ...llama, architectures: ["LlamaModel"] }) });
  const judge = await createEngine({
    ...OPTIONS,
    model: writeTinyEncoder({ ...llama, architectures: ["Qwen3ForSequenceClassification"], num_labels: 1 }),
  });
  try {
    assert.equal(base.model.task, "embed");
    assert.equal((await base.embed(["the cat"])).vectors[0]!.length, 32);
    assert.equal(judge.model.task, "score");
    const { scores } = await judge.score([
      ["cat", "dog"],
      ["cat", "mat"],
    ]);
    assert.notEqual(scores[0], scores[1]);
  } finally {
    await base.close();
    await judge.close();
  }
});

function jsonTokenizer(model: string): JsonTokenizer {
  const file = join(model, "tokenizer.json");
  return new JsonTokenizer({ file, json: JSON.parse(readFileSync(file, "utf8")) });
}

function judgePrompt(instruction: string, query: string, document: string): string {
  const system =
    'Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".';
  return `<|im_start|>system\n${system}<|im_end|>\n<|im_start|>user\n<Instruct>: ${instruction}\n<Query>: ${query}\n<Document>: ${document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n`;
}
