import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { findPreTokenizer, PRE_TOKENIZER_NAMES, splitWords } from "./pre-tokenizers.js";

const split = (name: string, text: string) => splitWords(text, findPreTokenizer(name)!.patterns);

test("words as each family's vocabulary was trained on them", () => {
  const text = "I'll pay 12345, OK?\n\n  fooBar";
  assert.deepEqual(split("gpt-2", text), ["I", "'ll", " pay", " 12345", ",", " OK", "?", "\n\n ", " fooBar"]);
  assert.deepEqual(split("llama-bpe", text), [
    "I",
    "'ll",
    " pay",
    " ",
    "123",
    "45",
    ",",
    " OK",
    "?\n\n",
    " ",
    " fooBar",
  ]);
  assert.deepEqual(split("qwen2", "v12 X'LL"), ["v", "1", "2", " X", "'LL"]);
  assert.deepEqual(split("smollm", "a 12"), ["a", " ", "1", "2"]);
  assert.deepEqual(split("tekken", "fooBarBAZ it's"), ["foo", "Bar", "BAZ", " it", "'s"]);
  assert.deepEqual(split("gpt-4o", "fooBarBAZ it's"), ["foo", "Bar", "BAZ", " it's"]);
  assert.deepEqual(split("deepseek-v3", "漢字abc 1234"), ["漢字", "abc", " ", "123", "4"]);
  assert.deepEqual(split("deepseek-llm", "Ωδε, 漢字 12"), ["Ωδε", ",", " ", "漢字", " ", "12"]);
  assert.deepEqual(split("falcon", "x=12345"), ["x", "=", "123", "45"]);
  assert.deepEqual(split("bloom", "one two."), ["one", " two", "."]);
  assert.deepEqual(split("kimi-k2", "漢字abcDef 12345"), ["漢字", "abc", "Def", " ", "123", "45"]);
  assert.deepEqual(split("afmoe", "x1234567"), ["x", "1", "234", "567"]);
  assert.deepEqual(split("superbpe", "1234567"), ["1", "234", "567"]);
  assert.deepEqual(split("tiny_aya", "12345"), ["12", "345"]);
  assert.deepEqual(split("minicpm5", "a 1234"), ["a", " ", "123", "4"]);
  assert.deepEqual(split("jais-2", "a     b"), ["a", "    ", " b"]);
  const widths = (count: number) => split("jais-2", " ".repeat(count)).map((word) => word.length);
  for (const [i, width] of [512, 256, 128, 64, 32, 16, 8, 4].entries())
    assert.deepEqual(widths(width), [width], `${i}: ${width} spaces are one word`);
  assert.deepEqual(widths(1023), [512, 256, 128, 64, 32, 16, 8, 4, 2, 1]);
  assert.deepEqual(split("exaone-moe", "one two 3"), ["one two", " ", "3"]);
  assert.deepEqual(split("gemma4", "one two\n\nthree"), ["one two", "\n\n", "three"]);
  assert.deepEqual(split("youtu", "한국abc12"), ["한국", "abc", "1", "2"]);
  assert.deepEqual(split("chameleon", "a,b 1"), ["a", ",", "b", " ", "1"]);
});

test("which families take whole words, compose text, begin with a token of their own, have no byte alphabet", () => {
  const are = (has: (pre: NonNullable<ReturnType<typeof findPreTokenizer>>) => boolean): string =>
    PRE_TOKENIZER_NAMES.filter((name) => has(findPreTokenizer(name)!))
      .toSorted()
      .join(" ");
  assert.equal(
    are(({ ignoresMerges }) => ignoresMerges),
    "falcon-h1 falcon3 granite-embed-multi-97m jina-v5-nano lfm2 llama-bpe llama-v3 llama3 midm-2.0 minicpm5 pixtral tekken youtu",
  );
  assert.equal(
    are(({ addsBos }) => addsBos),
    "chameleon falcon-h1 falcon3 jina-v5-nano lfm2 llama-bpe llama-v3 llama3 midm-2.0 pixtral tekken",
  );
  assert.equal(
    are(({ composes }) => composes),
    "modern-bert mpt olmo qwen2 qwen35",
  );
  assert.equal(
    are(({ isRaw }) => isRaw),
    "gemma4 granite-embed-multi-311m sarvam-moe whitespace",
  );
});

test("spaces are Unicode's: a byte order mark is none, U+0085 is one", () => {
  assert.deepEqual(split("gpt-2", "\uFEFF#x\u0085y"), ["\uFEFF#", "x", "\u0085", "y"]);
});

test("property: every pre-tokenizer keeps every character", () => {
  assert.equal(PRE_TOKENIZER_NAMES.length, 87);
  const unit = fc.constantFrom(
    "a",
    "B",
    "é",
    "Ω",
    "漢",
    "🐉",
    "1",
    "½",
    " ",
    "\n",
    "\t",
    "'s",
    ".",
    "\u0301",
    "\uFEFF",
  );
  for (const name of PRE_TOKENIZER_NAMES) {
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 30 }), (text) => {
        const words = split(name, text);
        assert.equal(words.join(""), text);
        if (text !== "") assert.ok(!words.includes(""));
      }),
      { seed: 5, numRuns: 60 },
    );
  }
});

test("an unknown name is not guessed", () => {
  assert.equal(findPreTokenizer("no-such-words"), null);
  assert.equal(findPreTokenizer("constructor"), null);
});
