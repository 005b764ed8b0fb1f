import assert from "node:assert/strict";
import { test } from "node:test";
import { readGgufChatTemplates, readGgufVocab } from "./gguf-vocab.js";

const words = (count: number) => Array.from({ length: count }, (_, i) => `t${i}`);
const zeros = (count: number) => words(count).map(() => 0);

function read(model: string, keys: Record<string, unknown>, name?: string) {
  const metadata = new Map<string, unknown>([["tokenizer.ggml.model", model]]);
  if (name !== undefined) metadata.set("general.name", name);
  for (const [key, value] of Object.entries(keys)) metadata.set(`tokenizer.ggml.${key}`, value);
  return readGgufVocab(metadata, "f.gguf");
}

const COMMON = { controlStripsSpaces: false, addsEos: false, padId: null };

test("what each kind of vocabulary is without further keys", () => {
  const tokens = words(4);
  const types = [1, 1, 1, 1];
  assert.deepEqual(read("llama", { tokens, scores: zeros(4) }), {
    ...{ ...COMMON, kind: "sentencepiece", tokens, types, bosId: 1, eosId: 2, unkId: 0, eosIds: [2] },
    ...{ addsBos: true, scores: zeros(4), addsSpacePrefix: true },
  });
  assert.deepEqual(read("t5", { tokens, scores: zeros(4) }), {
    ...{ ...COMMON, kind: "unigram", tokens, types, bosId: null, eosId: 1, unkId: 2, padId: 0, eosIds: [] },
    ...{ addsBos: false, addsEos: true, scores: zeros(4), addsSpacePrefix: true, joinsSpaces: true, charsmap: null },
  });
  const many = words(103);
  assert.deepEqual(read("bert", { tokens: many }), {
    ...{ ...COMMON, kind: "wordpiece", tokens: many, types: many.map(() => 1), bosId: 101, eosId: 102, unkId: 100 },
    ...{ eosIds: [], addsBos: true, addsEos: true, lowersCase: true, stripsAccents: true },
  });
  const { preTokenizer, ...bytes } = read("gpt2", { tokens, merges: ["a b"] }) as { preTokenizer?: unknown };
  assert.ok(preTokenizer !== undefined);
  assert.deepEqual(bytes, {
    ...{ ...COMMON, kind: "byte-level", tokens, types, bosId: null, eosId: null, unkId: null, eosIds: [] },
    ...{ addsBos: false, merges: ["a b"] },
  });
  assert.equal(read("gemma4", { tokens, merges: [] }).addsBos, true);
  assert.equal(read("llama", { tokens: ["only"], scores: [0] }).bosId, null); // no room for the usual ids
  assert.deepEqual(
    [102, 101, 100].map((count) => read("bert", { tokens: words(count) })).map((v) => [v.bosId, v.eosId, v.unkId]),
    [
      [101, null, 100],
      [null, null, 100],
      [null, null, null],
    ],
  );
});

test("keys say otherwise", () => {
  const tokens = words(6);
  const scores = zeros(6);
  const ids = {
    bos_token_id: 3,
    eos_token_id: 4,
    unknown_token_id: 5,
    padding_token_id: 0,
    eot_token_id: 1,
    eom_token_id: 2,
  };
  const flags = { add_bos_token: false, add_eos_token: true, add_space_prefix: false, token_type: [1, 2, 3, 4, 5, 6] };
  const llama = read("llama", { tokens, scores, ...ids, ...flags }, "Phi-3 mini");
  assert.deepEqual(llama, {
    ...{ kind: "sentencepiece", tokens, types: [1, 2, 3, 4, 5, 6], bosId: 3, eosId: 4, unkId: 5, padId: 0 },
    ...{ eosIds: [4, 1, 2], addsBos: false, addsEos: true, controlStripsSpaces: true, scores, addsSpacePrefix: false },
  });
  const t5 = read("t5", { tokens, scores, ...ids, ...flags, add_eos_token: false, remove_extra_whitespaces: false });
  assert.ok(t5.kind === "unigram");
  assert.deepEqual(
    [t5.eosId, t5.unkId, t5.padId, t5.addsEos, t5.addsBos, t5.addsSpacePrefix, t5.joinsSpaces],
    [4, 5, 0, false, false, false, false],
  );
  const bert = read("bert", { tokens, ...ids, cls_token_id: 1, seperator_token_id: 2, "normalizer.lowercase": false });
  assert.ok(bert.kind === "wordpiece");
  assert.deepEqual([bert.bosId, bert.eosId, bert.unkId, bert.lowersCase, bert.stripsAccents], [1, 2, 5, false, false]);
  const named = read("bert", { tokens, ...ids, "normalizer.lowercase": false, "normalizer.strip_accents": true });
  assert.ok(named.kind === "wordpiece");
  assert.deepEqual([named.bosId, named.eosId, named.stripsAccents], [3, 4, true]);
  assert.equal(read("llama", { tokens, scores, bos_token_id: 0xffff_ffff }).bosId, null);
  assert.equal(read("gpt2", { tokens, merges: [], add_bos_token: true }).addsBos, true);
  assert.equal(read("llama", { tokens, scores: Float32Array.from(scores) }).kind, "sentencepiece");
});

test("ends of turns are known by name, where they are markers; in harmony a message's end is none", () => {
  const ends = (tokens: string[], types: number[]) => read("gpt2", { tokens, token_type: types, merges: [] }).eosIds;
  assert.deepEqual(ends(["a", "<|im_end|>", "</s>", "<|end|>"], [1, 3, 4, 3]), [1, 2, 3]);
  assert.deepEqual(ends(["a", "<|im_end|>", "</s>", "<|end|>"], [1, 1, 2, 5]), []);
  assert.deepEqual(ends(["<|return|>", "<|call|>", "<|end|>"], [3, 3, 3]), [0, 1]);
  assert.deepEqual(ends(["<|return|>", "x", "<|end|>"], [3, 3, 3]), [0, 2]);
});

test("what is missing or of another kind is refused by its key", () => {
  const tokens = words(4);
  const scores = zeros(4);
  const cases: [string, Record<string, unknown>, RegExp][] = [
    ["rwkv", { tokens }, /tokenizer\.ggml\.model = rwkv is not supported.*llama, gpt2, gemma4, bert, t5/],
    ["llama", { scores }, /tokenizer\.ggml\.tokens: expected an entry of the metadata, found none/],
    ["llama", { tokens }, /tokenizer\.ggml\.scores: expected an entry/],
    ["llama", { tokens: [], scores: [] }, /tokens: expected 1 entries, one for each token, found 0/],
    ["llama", { tokens: "abc", scores }, /tokens: expected an array, found string/],
    ["llama", { tokens: new DataView(new ArrayBuffer(4)), scores }, /tokens: expected an array, found object/],
    ["llama", { tokens: ["a", 5], scores }, /tokens\[1\]: expected a string, found number/],
    ["llama", { tokens, scores: zeros(3) }, /scores: expected 4 entries, one for each token, found 3/],
    ["llama", { tokens, scores, token_type: zeros(3) }, /token_type: expected 4 entries/],
    ["llama", { tokens, scores, bos_token_id: 4 }, /bos_token_id: expected an id under 4, found 4/],
    ["llama", { tokens, scores, eos_token_id: -1 }, /eos_token_id: expected an id under 4, found -1/],
    ["llama", { tokens, scores, eot_token_id: 1.5 }, /eot_token_id: expected an id under 4, found 1.5/],
    ["llama", { tokens, scores, eom_token_id: "1" }, /eom_token_id: expected an id under 4, found 1/],
    ["llama", { tokens, scores, add_bos_token: 1 }, /add_bos_token: expected true or false, found 1/],
    ["gpt2", { tokens }, /merges: expected an entry/],
    ["gpt2", { tokens, merges: [], pre: "nosuch" }, /tokenizer\.ggml\.pre = nosuch is not supported/],
    ["t5", { tokens }, /scores: expected an entry/],
    ["t5", { tokens, scores, precompiled_charsmap: [1, 2] }, /precompiled_charsmap/],
  ];
  for (const [model, keys, message] of cases) assert.throws(() => read(model, keys), message, JSON.stringify(keys));
});

test("chat templates by name", () => {
  const metadata = new Map<string, unknown>([
    ["tokenizer.chat_template", "a"],
    ["tokenizer.chat_template.tool_use", "b"],
    ["tokenizer.chat_template.x", 5],
    ["tokenizer.chat_templates", "c"],
    ["x", "y"],
  ]);
  assert.deepEqual(
    [...readGgufChatTemplates(metadata)],
    [
      ["default", "a"],
      ["tool_use", "b"],
    ],
  );
});
