// What users and tools write is text, whatever the template does with it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import fc from "fast-check";
import { sentencePieceJson } from "../../test/fixtures/vocabularies.js";
import { ChatTemplate } from "./chat-template.js";
import { GgufTokenizer } from "./gguf-tokenizer.js";
import { JsonTokenizer } from "./json-tokenizer.js";
import type { Tokenizer } from "./tokenizer.js";

const readModel = (name: string) => JSON.parse(readFileSync(`models/pagoda-stories-16m/${name}`, "utf8"));
const byteLevel = new JsonTokenizer({
  file: "tokenizer.json",
  json: readModel("tokenizer.json"),
  config: readModel("tokenizer_config.json"),
});
const sentencePiece = new JsonTokenizer({ file: "tokenizer.json", json: sentencePieceJson() });

function ggufTokenizer(): GgufTokenizer {
  const tokens = ["<unk>", "<s>", "</s>", "<|user|>", "<tool>"];
  const types = [2, 3, 3, 3, 4];
  for (let byte = 0; byte < 256; byte++) tokens.push(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
  while (types.length < tokens.length) types.push(6);
  // Pieces of which a merge could make "</s>", the best-scored token of all.
  for (const word of ["▁", "<", "/", "s", ">", "</", "s>", "|", "u", "e", "r"]) {
    tokens.push(word);
    types.push(1);
  }
  const fields = { model: "llama", tokens, token_type: types, scores: tokens.map((_, id) => (id < 5 ? 0 : -id)) };
  return new GgufTokenizer(
    new Map(Object.entries(fields).map(([key, value]) => [`tokenizer.ggml.${key}`, value])),
    "x.gguf",
  );
}

// Templates that cut, join, quote and change what they are given.
const TEMPLATES = [
  "{% for m in messages %}{{ '<|user|>' if m.role == 'user' else '<|assistant|>' }}{{ m.content }}<|end|>{% endfor %}",
  "{% for m in messages %}<|user|>{{ m.content | trim | upper | lower }}<|end|>{% endfor %}<|assistant|>",
  "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content.split('x') | join('') + '<|end|>' }}{% endfor %}",
  "{% for m in messages %}<|user|>{{ m | tojson }}{{ '%s' % m.content }}{{ '{}'.format(m.content) }}{% endfor %}",
  "{% for m in messages %}{{ '<|' ~ m.content ~ '|>' }}{% set x %}<|us{{ m.content[:3] }}{{ m.content[3:] }}{% endset %}{{ x }}{% endfor %}",
  "{% for m in messages %}{{ m.content | replace('-', '') }}{{ m.content[::-1] | list | reverse | join }}{% endfor %}",
];
const PIECES = [
  "<|user|>",
  "<|end|>",
  "<|",
  "|>",
  "user",
  "er|>",
  "</s>",
  "<s>",
  "</",
  "s>",
  "<tool>",
  "x",
  "-",
  " ",
  "\n",
  "é",
  "<|END|>",
  "<unk>",
];

/** How often the template itself, with harmless content, writes control tokens. */
function numSpecials(tokenizer: Tokenizer, ids: readonly number[]): number {
  return ids.filter((id) => tokenizer.isSpecial(id) && tokenizer.idToToken(id) !== "<unk>").length;
}

for (const [name, tokenizer] of [
  ["byte-level tokenizer.json", byteLevel],
  ["SentencePiece tokenizer.json", sentencePiece],
  ["GGUF", ggufTokenizer()],
] as const) {
  test(`${name}: content never makes a control token, and the text stays what it is`, () => {
    const content = fc.array(fc.constantFrom(...PIECES), { maxLength: 8 }).map((parts) => parts.join(""));
    fc.assert(
      fc.property(
        fc.constantFrom(...TEMPLATES),
        fc.array(content, { minLength: 1, maxLength: 3 }),
        (source, contents) => {
          const template = new ChatTemplate(new Map([["default", source]]), {});
          const encode = (texts: readonly string[]) => {
            const prompt = template.renderPrompt(texts.map((text) => ({ role: "user", content: text })));
            const options = { addSpecialTokens: false, content: prompt.content };
            return { prompt, ids: tokenizer.encode(prompt.text, options) };
          };
          const { prompt, ids } = encode(contents);
          const harmless = encode(contents.map(() => "a"));
          assert.equal(numSpecials(tokenizer, ids), numSpecials(tokenizer, harmless.ids), JSON.stringify(prompt));
        },
      ),
      { seed: 6, numRuns: 500 },
    );
  });

  test(`${name}: without a control token in the content the ids are the usual ones`, () => {
    const text = fc.array(fc.constantFrom("a", "hello", " ", "\n", "é", "😀", "<", "|", "user", "<tool>"), {
      maxLength: 12,
    });
    fc.assert(
      fc.property(text, text, (before, inside) => {
        const whole = `${before.join("")}<s>${inside.join("")}</s>${before.join("")}<|end|>`;
        const start = before.join("").length + 3;
        const content = [[start, start + inside.join("").length]] as const;
        const plain = tokenizer.encode(whole, { addSpecialTokens: false });
        if (inside.length > 0) assert.deepEqual(tokenizer.encode(whole, { addSpecialTokens: false, content }), plain);
      }),
      { seed: 7 },
    );
  });
}

test("the ids are those of the characters", () => {
  const content = "a <|end|> b";
  const text = `<|user|>${content}<|end|>`;
  const ids = byteLevel.encode(text, { addSpecialTokens: false, content: [[8, 8 + content.length]] });
  assert.equal(byteLevel.decode(ids), text);
  assert.deepEqual([ids[0], ids.at(-1)], [byteLevel.tokenToId("<|user|>"), byteLevel.tokenToId("<|end|>")]);
  assert.equal(numSpecials(byteLevel, ids), 2);
  // A marker that is half the template's and half the user's is nobody's.
  assert.equal(numSpecials(byteLevel, byteLevel.encode("<|end|>", { addSpecialTokens: false, content: [[2, 5]] })), 0);
});

test("a BOS in the content does not stand for the prompt's own", () => {
  const template = new ChatTemplate(new Map([["default", "{{ messages[0].content }}"]]), { bos_token: "<s>" }, "<s>");
  assert.deepEqual(template.renderPrompt([{ role: "user", content: "<s>hi" }]), {
    text: "<s><s>hi",
    content: [[3, 8]],
  });
});
