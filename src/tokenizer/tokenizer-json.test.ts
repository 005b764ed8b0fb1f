import assert from "node:assert/strict";
import { test } from "node:test";
import { checkTokenizerJson } from "./tokenizer-json.js";

const good = () => ({
  model: { type: "BPE", vocab: { a: 0, b: 16777215 } as unknown, merges: ["a b", ["a", "b"]] as unknown },
  added_tokens: [{ id: 2, content: "<s>", special: true }] as unknown,
  normalizer: null as unknown,
  pre_tokenizer: null as unknown,
  post_processor: null as unknown,
});

const refusal = (json: object): string | null => {
  try {
    checkTokenizerJson(json as Record<string, unknown>, "t.json");
    return null;
  } catch (error) {
    return (error as Error).message;
  }
};

test("every field is of the type it is used as, wherever it stands; what is null or not known is let be", () => {
  assert.equal(refusal(good()), null);
  const kinds: Record<string, [string, string[], unknown[], unknown[]]> = {
    string: [
      "a string",
      "unk_token continuing_subword_prefix end_of_word_suffix prepend replacement prepend_scheme behavior".split(" "),
      ["", "x", null],
      [5, true, {}, []],
    ],
    boolean: [
      "a boolean",
      `byte_fallback fuse_unk ignore_merges invert split individual_digits add_prefix_space trim_offsets use_regex
      strip_left strip_right clean_text handle_chinese_chars strip_accents lowercase special single_word lstrip rstrip normalized`.split(
        /\s+/,
      ),
      [true, false, null],
      [0, "true", {}],
    ],
    integer: [
      "a whole number under 16777216",
      ["unk_id", "max_input_chars_per_word"],
      [0, 16777215, null],
      [-1, 16777216, 1.5, "1", {}],
    ],
    size: ["a whole number of at least 1", ["length"], [1, 5, null], [0, -1, 1.5, "1", {}]],
    object: ["an object", ["special_tokens"], [{}, null], [[], 5, "x"]],
    list: ["a list", ["single", "pair"], [[], [{}], null], [5, {}, "x"]],
    parts: ["a list", ["normalizers", "pretokenizers", "processors"], [[], [{ type: "x" }], null], [5, {}]],
    pattern: [
      "a text or an expression",
      ["pattern"],
      ["x", { String: "x" }, { Regex: "x" }, null],
      [5, {}, { Regex: 5 }, []],
    ],
    "token and id": ["a list", ["sep", "cls"], [["x", 1], null], [5, {}]],
  };
  for (const [expected, names, fine, wrong] of Object.values(kinds))
    for (const name of names)
      for (const part of ["normalizer", "pre_tokenizer", "post_processor", "model"] as const) {
        const made = (value: unknown) =>
          part === "model"
            ? { ...good(), model: { ...good().model, [name]: value } }
            : { ...good(), [part]: { [name]: value } };
        for (const value of fine) assert.equal(refusal(made(value)), null, `${part}.${name} ${JSON.stringify(value)}`);
        for (const value of wrong) {
          const message = refusal(made(value)) ?? "";
          assert.ok(
            message.includes(`${part}.${name}: expected ${expected}`),
            `${part}.${name} ${JSON.stringify(value)}: ${message}`,
          );
        }
      }
  assert.equal(refusal({ ...good(), normalizer: { nosuch: 5 } }), null);
});

test("what is within lists is looked at, too, and told by its path", () => {
  const cases: [object, RegExp][] = [
    [{ normalizer: 5 }, /normalizer: expected an object, found 5/],
    [
      { normalizer: { normalizers: [{ type: "x" }, { normalizers: [{ lowercase: 1 }] }] } },
      /normalizer\.normalizers\.1\.normalizers\.0\.lowercase: expected a boolean/,
    ],
    [{ post_processor: { single: [{}, 5] } }, /post_processor\.single: expected a list of objects, found 5/],
    [{ post_processor: { sep: [5, 1] } }, /post_processor\.sep: expected a token and its id, found \[5,1\]/],
    [{ post_processor: { cls: ["x", -1] } }, /post_processor\.cls: expected a whole number under 16777216, found -1/],
    [{ added_tokens: 5 }, /added_tokens: expected a list/],
    [
      { added_tokens: [{ content: "a", id: 1 }, { id: 1 }] },
      /added_tokens\.1\.content: expected a string, found nothing/,
    ],
    [{ added_tokens: [{ content: "a" }] }, /id of token a: expected a whole number/],
    [{ added_tokens: [{ content: "a", id: 1, special: 1 }] }, /added_tokens\.0\.special: expected a boolean/],
    [{ model: 5 }, /model: expected an object/],
    [{ model: [] }, /model: expected an object/],
    [{ model: { type: "WordLevel", vocab: {} } }, /model\.type = WordLevel is not supported.*BPE, Unigram, WordPiece/],
    [{ model: { type: "BPE" } }, /model\.vocab: expected an object or a list, found nothing/],
    [{ model: { vocab: { a: 16777216 } } }, /id of token a: expected a whole number under 16777216/],
    [{ model: { vocab: [["a", 1], ["b"]] } }, /model\.vocab\.1: expected a token and its score/],
    [{ model: { vocab: [[5, 1]] } }, /model\.vocab\.0/],
    [{ model: { vocab: [5] } }, /model\.vocab\.0/],
    [{ model: { vocab: {}, merges: 5 } }, /model\.merges: expected a list/],
    [{ model: { vocab: {}, merges: [5] } }, /model\.merges: expected pairs of tokens, found 5/],
    [{ model: { vocab: {}, merges: [["a", 5]] } }, /model\.merges: expected pairs of tokens/],
  ];
  for (const [part, message] of cases) assert.match(refusal({ ...good(), ...part }) ?? "none", message);
  for (const model of [
    { vocab: {} },
    { type: null, vocab: [["a", -1.5]] },
    { type: "Unigram", vocab: [], merges: null },
  ])
    assert.equal(refusal({ ...good(), model, added_tokens: null }), null);
});

test("replacements that make a text longer and longer are refused", () => {
  const replace = (pattern: unknown, content: string) => ({ type: "Replace", pattern, content });
  const sequence = (...normalizers: object[]) => ({ ...good(), normalizer: { type: "Sequence", normalizers } });
  assert.equal(refusal(sequence(replace({ String: " " }, "▁"), replace({ Regex: "x" }, "yy"))), null);
  assert.equal(refusal(sequence(replace({ String: "abcd" }, "x".repeat(256)))), null);
  for (const grows of [
    sequence(replace({ Regex: "." }, "x".repeat(65))),
    sequence(...Array.from({ length: 7 }, () => replace({ String: "a" }, "aa"))),
    { ...sequence(replace("a", "a".repeat(9))), pre_tokenizer: replace("a", "a".repeat(9)) },
  ])
    assert.match(refusal(grows)!, /normalizer: expected replacements/);
});
