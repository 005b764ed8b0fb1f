// The vocabulary of a real GGUF file: ids must equal those of llama.cpp on the same file.
// test/fixtures/stories260k-token-ids.json was printed by node-llama-cpp 3.22 (model.tokenize(text, true)).

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { openGguf } from "../src/formats/gguf/gguf.js";
import { GgufTokenizer } from "../src/tokenizer/gguf-tokenizer.js";
import { StreamDetokenizer } from "../src/tokenizer/stream-detokenizer.js";

const path = "../shared/models/stories260K.gguf";

test("stories260K.gguf: ids equal llama.cpp's", { skip: existsSync(path) ? false : `${path} is not here` }, () => {
  const file = openGguf(path);
  const tokenizer = new GgufTokenizer(file.metadata, path);
  const samples = JSON.parse(readFileSync("test/fixtures/stories260k-token-ids.json", "utf8"));
  assert.ok(samples.length > 10);
  for (const { text, ids } of samples) {
    assert.deepEqual(tokenizer.encode(text, { addSpecialTokens: false }), ids, text);
    assert.deepEqual(tokenizer.encode(text), [1, ...ids], text);
    const stream = new StreamDetokenizer(tokenizer, { skipSpecialTokens: false, isContinuation: false });
    assert.equal(ids.map((id: number) => stream.push(id)).join("") + stream.flush(), tokenizer.decode(ids), text);
  }
  assert.equal(tokenizer.vocabSize, 512);
  assert.deepEqual(tokenizer.eosIds, [2]);
  assert.equal(tokenizer.decode(tokenizer.encode("naïve 漢字 🐉"), { skipSpecialTokens: true }), "naïve 漢字 🐉");
  file.source.close();
});
