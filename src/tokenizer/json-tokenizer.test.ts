import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import fc from "fast-check";
import { sentencePieceJson } from "../../test/fixtures/vocabularies.js";
import { FormatError } from "../core/errors.js";
import { ChatTemplate } from "./chat-template.js";
import { JsonTokenizer } from "./json-tokenizer.js";
import { StreamDetokenizer } from "./stream-detokenizer.js";

const folder = "models/pagoda-stories-16m";
const readJson = (name: string) => JSON.parse(readFileSync(`${folder}/${name}`, "utf8"));
const config = readJson("tokenizer_config.json");
const stories = new JsonTokenizer({ file: "tokenizer.json", json: readJson("tokenizer.json"), config, eosIds: [4, 0] });

interface Case {
  messages: { role: string; content: string }[];
  text: string;
  prompt: number[];
  greedy: number[];
  greedy_text: string;
}
const cases: Case[] = readJson("golden.json").cases;

test("the bundled model's goldens: messages to ids, ids to text, at once and streamed", () => {
  const template = new ChatTemplate(new Map([["default", config.chat_template]]), stories.specialTokens);
  assert.ok(cases.length > 0);
  for (const golden of cases) {
    const text = template.render(golden.messages);
    assert.equal(text, golden.text);
    assert.deepEqual(stories.encode(text, { addSpecialTokens: false }), golden.prompt);
    assert.equal(stories.decode(golden.greedy), golden.greedy_text);
    const stream = new StreamDetokenizer(stories, { skipSpecialTokens: false });
    assert.equal(golden.greedy.map((id) => stream.push(id)).join("") + stream.flush(), golden.greedy_text);
  }
});

test("ids, special tokens and their names", () => {
  assert.equal(stories.vocabSize, 8192);
  assert.equal(stories.bosId, 0);
  assert.deepEqual(stories.eosIds, [4, 0]);
  assert.equal(stories.specialTokens.eos_token, "<|end|>");
  assert.equal(stories.tokenToId("<|user|>"), 1);
  assert.equal(stories.idToToken(1), "<|user|>");
  assert.equal(stories.tokenToId("no such token"), null);
  assert.equal(stories.idToToken(8192), null);
  assert.equal(stories.tokenBytes(8192).length, 0);
  assert.equal(stories.isSpecial(4), true);
  assert.equal(stories.isSpecial(203), false);
  assert.equal(stories.decode([4, 203, 1]), "<|end|>\n<|user|>");
  assert.equal(stories.decode([4, 203, 1], { skipSpecialTokens: true }), "\n");
  assert.deepEqual(stories.encode(""), []);
});

test("ids agree with Hugging Face's own implementation on awkward text", () => {
  // Ids printed by tokenizers 0.23 (Rust) from the same tokenizer.json; the second text begins with a byte order mark.
  assert.deepEqual(stories.encode("hé 漢字 <|end|>\n"), [76, 7528, 225, 167, 125, 100, 166, 260, 250, 225, 4, 203]);
  assert.deepEqual(stories.encode("\uFEFF#include\u0085 x"), [176, 124, 128, 7, 277, 7056, 1950, 131, 232, 4077]);
});

test("every text comes back from its ids", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      assert.equal(stories.decode(stories.encode(text)), text);
    }),
    { seed: 1, numRuns: 300 },
  );
});

test("SentencePiece-style: spaces, byte fallback, the space before a text", () => {
  const llama = new JsonTokenizer({ file: "t", json: sentencePieceJson() });
  assert.equal(llama.stripsLeadingSpace, true);
  const ids = llama.encode("hello é", { addSpecialTokens: false });
  assert.deepEqual(
    ids.map((id) => llama.idToToken(id)),
    ["▁hello", "▁", "<0xC3>", "<0xA9>"],
  );
  assert.equal(llama.decode(ids), "hello é");
  assert.equal(llama.decode(ids, { isContinuation: true }), " hello é");
  assert.equal(llama.encode("hello")[0], llama.tokenToId("<s>"));
  assert.deepEqual([...llama.tokenBytes(llama.tokenToId("<0xC3>")!)], [0xc3]);
  assert.equal(llama.decode([llama.tokenToId("<0xC3>")!]), "\uFFFD");
});

test("a character that has no token is left out where the file names none for the unknown", () => {
  const model = { type: "BPE", unk_token: null, vocab: { a: 0, b: 1 }, merges: [] };
  const tokenizer = new JsonTokenizer({ file: "t", json: { model, decoder: { type: "ByteLevel" } } });
  assert.deepEqual(tokenizer.encode("acb"), [0, 1]);
  assert.deepEqual(tokenizer.encode("acb", { content: [[0, 2]] }), [0, 1]);
});

test("a Metaspace decoder strips the leading space unless its scheme says never", () => {
  const json = (decoder: unknown) => ({ ...sentencePieceJson(), decoder });
  const strips = (decoder: unknown) => new JsonTokenizer({ file: "t", json: json(decoder) }).stripsLeadingSpace;
  assert.equal(strips({ type: "Metaspace", replacement: "▁", prepend_scheme: "always" }), true);
  assert.equal(strips({ type: "Metaspace", replacement: "▁", prepend_scheme: "never" }), false);
  assert.equal(strips({ type: "Metaspace", replacement: "▁", add_prefix_space: true }), true);
});

test("what cannot be read is refused with the file and the reason", () => {
  const refuses = (json: Record<string, unknown>, message: RegExp) =>
    assert.throws(
      () => new JsonTokenizer({ file: "x/tokenizer.json", json }),
      (error: Error) =>
        error instanceof FormatError && /x\/tokenizer\.json/.test(error.message) && message.test(error.message),
    );
  refuses({}, /decoder = undefined/);
  refuses({ decoder: { type: "CTC" } }, /CTC/);
  refuses({ decoder: { type: "Sequence", decoders: [{ type: "Fuse" }] } }, /Fuse/);
  refuses({ decoder: { type: "ByteLevel" } }, /model: expected an object, found nothing/);
  refuses({ decoder: { type: "ByteLevel" }, model: { type: "Quantum", vocab: {} } }, /model\.type = Quantum/);
  refuses(
    { decoder: { type: "ByteLevel" }, model: { type: "BPE", vocab: { a: -7 }, merges: [] } },
    /tokenizer|token a/,
  );
});
