import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import fc from "fast-check";
import { FormatError } from "../core/errors.js";
import { GgufTokenizer } from "./gguf-tokenizer.js";
import { readGgufChatTemplates } from "./gguf-vocab.js";
import { JsonTokenizer } from "./json-tokenizer.js";

const NORMAL = 1;
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;
const BYTE = 6;

type Fields = Record<string, unknown>;

function make(fields: Fields, general: Fields = {}): GgufTokenizer {
  const own = Object.entries(fields).map(([key, value]) => [`tokenizer.ggml.${key}`, value] as const);
  return new GgufTokenizer(new Map<string, unknown>([...own, ...Object.entries(general)]), "x.gguf");
}

/** SentencePiece-style: markers, bytes, then words with scores. */
function sentencePiece(words: readonly [string, number, number?][], more: Fields = {}): Fields {
  const rows: [string, number, number][] = [
    ["<unk>", 0, UNKNOWN],
    ["<s>", 0, CONTROL],
    ["</s>", 0, CONTROL],
  ];
  for (let byte = 0; byte < 256; byte++)
    rows.push([`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`, 0, BYTE]);
  for (const [token, score, type] of words) rows.push([token, score, type ?? NORMAL]);
  return {
    model: "llama",
    tokens: rows.map((row) => row[0]),
    scores: rows.map((row) => row[1]),
    token_type: rows.map((row) => row[2]),
    ...more,
  };
}

const pieces = (tokenizer: GgufTokenizer, text: string) =>
  tokenizer.encode(text, { addSpecialTokens: false }).map((id) => tokenizer.idToToken(id));

const WORDS: [string, number, number?][] = [
  ["▁", -1],
  ["a", -1],
  ["b", -1],
  ["ab", -3],
  ["▁a", -2],
  ["ba", -2.5],
  ["<turn>", 0, USER_DEFINED],
];

test("markers whose ids a file leaves out are where its kind of vocabulary has them", () => {
  const tokens = Array.from({ length: 104 }, (_, id) => `t${id}`);
  const scores = tokens.map(() => 0);
  const named = (fields: Fields) => {
    const { bos_token, eos_token, unk_token, pad_token } = make({ tokens, scores, ...fields }).specialTokens;
    return [bos_token, eos_token, unk_token, pad_token];
  };
  assert.deepEqual(named({ model: "bert" }), ["t101", "t102", "t100", undefined]);
  assert.deepEqual(named({ model: "bert", bos_token_id: 5, eos_token_id: 6 }), ["t5", "t6", "t100", undefined]);
  assert.deepEqual(named({ model: "t5" }), [undefined, "t1", "t2", "t0"]);
  assert.deepEqual(named({ model: "llama" }), ["t1", "t2", "t0", undefined]);
});

test("a leading space is the tokenizer's own where it puts one", () => {
  const strips = (fields: Fields) => make(fields).stripsLeadingSpace;
  assert.equal(strips(sentencePiece(WORDS)), true);
  assert.equal(strips(sentencePiece(WORDS, { add_space_prefix: false })), false);
  const plain = { tokens: Array.from({ length: 104 }, (_, id) => `t${id}`), scores: Array(104).fill(0) };
  assert.equal(strips({ ...plain, model: "bert" }), true);
  assert.equal(strips({ ...plain, model: "gpt2", pre: "gpt-2", merges: [] }), false);
});

test("byte-level: what a pruned vocabulary lacks is unknown, or nothing", () => {
  const fields = { model: "gpt2", pre: "gpt-2", tokens: ["a", "b", "?"], merges: ["a b"] };
  assert.deepEqual(make(fields).encode("abxa"), [0, 1, 0]);
  assert.deepEqual(make({ ...fields, unknown_token_id: 2 }).encode("abxa"), [0, 1, 2, 0]);
});

test("tokens that a user defined are text as it stands, whatever the alphabet of the others", () => {
  const spm = make(sentencePiece([...WORDS, ["<a▁b>", 0, USER_DEFINED]]));
  const text = (tokenizer: GgufTokenizer, token: string) =>
    Buffer.from(tokenizer.tokenBytes(tokenizer.tokenToId(token)!)).toString();
  assert.deepEqual([text(spm, "<a▁b>"), text(spm, "▁a")], ["<a▁b>", " a"]);
});

test("SentencePiece-style: the highest score is joined first, whatever its place", () => {
  const tokenizer = make(sentencePiece(WORDS));
  assert.deepEqual(pieces(tokenizer, "ab"), ["▁a", "b"]);
  assert.deepEqual(pieces(tokenizer, "bab"), ["▁", "ba", "b"]);
  assert.deepEqual(pieces(make(sentencePiece(WORDS, { add_space_prefix: false })), "abab"), ["a", "ba", "b"]);
});

test("SentencePiece-style: byte fallback, spaces, markers and the space after them", () => {
  const tokenizer = make(sentencePiece(WORDS));
  assert.deepEqual(pieces(tokenizer, "é"), ["▁", "<0xC3>", "<0xA9>"]);
  assert.deepEqual(pieces(tokenizer, "a  a"), ["▁a", "▁", "▁a"]);
  assert.deepEqual(pieces(tokenizer, "a</s>a<turn>b"), ["▁a", "</s>", "▁a", "<turn>", "▁", "b"]);
  // Written out, a byte token is text.
  assert.equal(pieces(tokenizer, "<0xC3>").length, 7);
  assert.equal(tokenizer.decode(tokenizer.encode("a é", { addSpecialTokens: false })), "a é");
  assert.equal(tokenizer.decode(tokenizer.encode("a"), { skipSpecialTokens: true }), "a");
  assert.equal(tokenizer.decode(tokenizer.encode("a")), "<s> a");
});

test("a vocabulary without byte tokens falls back to the unknown token", () => {
  const tokens = ["<unk>", "<s>", "</s>", "▁", "a"];
  const fields = { model: "llama", tokens, scores: [0, 0, 0, -1, -1], token_type: [2, 3, 3, 1, 1] };
  assert.deepEqual(make(fields).encode("aé"), [1, 3, 4, 0, 0]);
});

test("BOS and EOS are added as the file says", () => {
  const ids = (more: Fields) => make(sentencePiece(WORDS, more)).encode("<turn>");
  const turn = 259 + WORDS.length - 1;
  assert.deepEqual(ids({}), [1, turn]);
  assert.deepEqual(ids({ add_bos_token: false }), [turn]);
  assert.deepEqual(ids({ add_eos_token: true }), [1, turn, 2]);
  assert.deepEqual(make(sentencePiece(WORDS)).encode(""), [1]);
  assert.equal(make(sentencePiece(WORDS)).chatPrefix, "<s>");
  assert.equal(make(sentencePiece(WORDS, { add_bos_token: false })).chatPrefix, "");
  const frame = (more: Fields, isPair = false) => make(sentencePiece(WORDS, more)).frame(isPair);
  const both = { add_eos_token: true };
  assert.deepEqual(frame({}), { before: [1], between: [], after: [], hasTypes: false });
  assert.deepEqual(frame({ ...both, add_bos_token: false }), { before: [], between: [], after: [2], hasTypes: false });
  assert.deepEqual(frame(both, true), { before: [1], between: [2], after: [2], hasTypes: false });
  assert.deepEqual(frame({}, true), { before: [1], between: [], after: [], hasTypes: false });
  const bert = { model: "bert", tokens: Array.from({ length: 104 }, (_, id) => `t${id}`) };
  assert.equal(make({ ...bert, scores: bert.tokens.map(() => 0) }).frame(true).hasTypes, true);
  assert.equal(make({ ...bert, scores: bert.tokens.map(() => 0) }).frame(false).hasTypes, false);
});

const bundled = JSON.parse(readFileSync("models/pagoda-stories-16m/tokenizer.json", "utf8"));
const bundledFields = (pre: string): Fields => {
  const tokens: string[] = [];
  for (const [token, id] of Object.entries<number>(bundled.model.vocab)) tokens[id] = token;
  const types = tokens.map(() => NORMAL);
  for (const { id, content } of bundled.added_tokens) {
    tokens[id] = content;
    types[id] = CONTROL;
  }
  const merges = bundled.model.merges.map((merge: string[]) => merge.join(" "));
  return { model: "gpt2", pre, tokens, token_type: types, merges, bos_token_id: 0, eos_token_id: 4 };
};

test("property: byte-level ids equal those of tokenizer.json with the same vocabulary", () => {
  const gguf = make(bundledFields("gpt-2"));
  const json = new JsonTokenizer({ file: "bundled", json: bundled });
  const word = fc.constantFrom(
    "Once upon a time",
    " the dragon",
    "'s",
    "é",
    "漢字",
    "🐉",
    "<|end|>",
    "<|user|>",
    "12",
    "\n",
    "  ",
    "\uFEFF",
  );
  fc.assert(
    fc.property(fc.string({ unit: word, maxLength: 12 }), fc.string({ unit: "binary" }), (known, any) => {
      const text = known + any;
      const ids = gguf.encode(text);
      assert.deepEqual(ids, json.encode(text));
      assert.equal(gguf.decode(ids), text);
    }),
    { seed: 6, numRuns: 500 },
  );
});

test("pre-tokenizers that begin a text with BOS, or take whole words, do so", () => {
  assert.equal(make(bundledFields("llama-bpe")).encode("a")[0], 0);
  assert.notEqual(make({ ...bundledFields("llama-bpe"), add_bos_token: false }).encode("a")[0], 0);
  assert.notEqual(make(bundledFields("qwen2")).encode("a")[0], 0);
  // A token that no merge reaches is found only as a whole word.
  const plain = bundledFields("qwen2");
  const tokens = [...(plain.tokens as string[]), "qqqq"];
  const token_type = [...(plain.token_type as number[]), NORMAL];
  const encode = (more: Fields) => make({ ...plain, tokens, token_type, add_bos_token: false, ...more }).encode("qqqq");
  assert.equal(encode({}).length, 4);
  assert.deepEqual(encode({ pre: "llama3" }), [8192]);
});

test("ends of sequences: the file's own, and those known by name", () => {
  const eos = (names: string[], more: Fields = {}) =>
    make(
      sentencePiece(
        names.map((name) => [name, 0, CONTROL]),
        more,
      ),
    ).eosIds;
  assert.deepEqual(eos([]), [2]);
  assert.deepEqual(eos(["<|im_end|>", "<|start|>"]), [2, 259]);
  assert.deepEqual(eos(["a", "b"], { eot_token_id: 260 }), [2, 260]);
  // gpt-oss: <|end|> only ends a message.
  assert.deepEqual(eos(["<|end|>", "<|return|>", "<|call|>"]), [2, 260, 261]);
  const tokenizer = make(sentencePiece([]));
  assert.equal(tokenizer.bosId, 1);
  assert.deepEqual(tokenizer.specialTokens, { bos_token: "<s>", eos_token: "</s>", unk_token: "<unk>" });
});

test("Phi-3's markers take the spaces after them", () => {
  const words: [string, number, number?][] = [...WORDS, ["<|user|>", 0, CONTROL]];
  const text = "<|user|>\n a<s> a";
  const plain = make(sentencePiece(words));
  const phi = make(sentencePiece(words), { "general.name": "Phi-3 Mini" });
  assert.deepEqual(pieces(plain, text), ["<|user|>", "▁", "<0x0A>", "▁a", "<s>", "▁", "▁a"]);
  assert.deepEqual(pieces(phi, text), ["<|user|>", "▁a", "<s>", "▁", "▁a"]);
});

test("chat templates by name", () => {
  const metadata = new Map<string, unknown>([
    ["tokenizer.chat_template", "d"],
    ["tokenizer.chat_template.tool_use", "t"],
    ["tokenizer.chat_templates", ["tool_use"]],
  ]);
  assert.deepEqual(Object.fromEntries(readGgufChatTemplates(metadata)), { default: "d", tool_use: "t" });
});

test("metadata that cannot be honoured is refused by name", () => {
  const refuses = (fields: Fields, message: RegExp) =>
    assert.throws(
      () => make(fields),
      (error: Error) => error instanceof FormatError && /x\.gguf/.test(error.message) && message.test(error.message),
    );
  const good = sentencePiece([]);
  refuses({}, /tokenizer\.ggml\.model = undefined/);
  refuses({ ...good, model: "rwkv" }, /tokenizer\.ggml\.model = rwkv/);
  refuses({ model: "llama" }, /tokenizer\.ggml\.tokens/);
  refuses({ ...good, tokens: ["a", 7] }, /tokens\[1\].*a string, found number/);
  refuses({ ...good, scores: [0, 1] }, /scores: expected 259 entries/);
  refuses({ ...good, scores: undefined }, /scores/);
  refuses({ ...good, token_type: "x" }, /token_type: expected an array/);
  refuses({ ...good, bos_token_id: 5000 }, /bos_token_id: expected an id under 259, found 5000/);
  refuses({ ...good, add_bos_token: 1 }, /add_bos_token/);
  refuses({ model: "gpt2", tokens: ["a"], merges: [], pre: "martian" }, /tokenizer\.ggml\.pre = martian/);
  refuses({ model: "gpt2", tokens: ["a"] }, /merges/);
  assert.equal(make({ ...good, padding_token_id: 0xffff_ffff }).specialTokens.pad_token, undefined);
});

test("text merged as it is written: spaces as U+2581, unknown characters as bytes, runs of line breaks whole", () => {
  const tokens = ["<pad>", "<eos>", "<bos>", "\n\n", "▁", "a", "b", "▁a", "ab", "<0xC3>", "<0xA9>", "\n"];
  const types = [CONTROL, CONTROL, CONTROL, NORMAL, NORMAL, NORMAL, NORMAL, NORMAL, NORMAL, BYTE, BYTE, NORMAL];
  const fields = {
    model: "gemma4",
    tokens,
    token_type: types,
    merges: ["▁ a", "a b"],
    bos_token_id: 2,
    eos_token_id: 1,
  };
  const tokenizer = make(fields);
  assert.deepEqual(pieces(tokenizer, "ab a\n\né"), ["ab", "▁a", "\n\n", "<0xC3>", "<0xA9>"]);
  assert.equal(tokenizer.encode("a")[0], 2);
  assert.equal(tokenizer.decode(tokenizer.encode("ab a\n\né"), { skipSpecialTokens: true }), "ab a\n\né");
});

test("text is composed where the model's own tokenizer composes it", () => {
  const decomposed = "Cafe\u0301";
  const ids = (pre: string, text: string) => make(bundledFields(pre)).encode(text);
  assert.deepEqual(ids("qwen2", decomposed), ids("qwen2", "Café"));
  assert.notDeepEqual(ids("llama-bpe", decomposed), ids("llama-bpe", "Café"));
});

const WORDPIECES = [
  "[PAD]",
  "[UNK]",
  "[CLS]",
  "[SEP]",
  "un",
  "##aff",
  "##able",
  "the",
  "the".toUpperCase(),
  "cafe",
  ",",
  "漢",
  "##s",
  "dog",
];

test("WordPiece: ids equal those of tokenizer.json with the same vocabulary", () => {
  const special = (id: number) => ({
    id,
    content: WORDPIECES[id]!,
    special: true,
    normalized: false,
    lstrip: false,
    rstrip: false,
    single_word: false,
  });
  const json = new JsonTokenizer({
    file: "bert",
    json: {
      added_tokens: [0, 1, 2, 3].map(special),
      normalizer: {
        type: "BertNormalizer",
        clean_text: true,
        handle_chinese_chars: true,
        strip_accents: null,
        lowercase: true,
      },
      pre_tokenizer: { type: "BertPreTokenizer" },
      post_processor: null,
      decoder: { type: "WordPiece", prefix: "##", cleanup: true },
      model: {
        type: "WordPiece",
        unk_token: "[UNK]",
        continuing_subword_prefix: "##",
        max_input_chars_per_word: 100,
        vocab: Object.fromEntries(WORDPIECES.map((token, id) => [token, id])),
      },
    },
  });
  // GGUF files write words with a space before them, and continuations plain.
  const tokens = WORDPIECES.map((token, id) =>
    id < 4 ? token : token.startsWith("##") ? token.slice(2) : `▁${token}`,
  );
  const gguf = make({
    model: "bert",
    tokens,
    token_type: WORDPIECES.map((_, id) => (id === 1 ? UNKNOWN : id < 4 ? CONTROL : NORMAL)),
    cls_token_id: 2,
    seperator_token_id: 3,
    unknown_token_id: 1,
  });
  const text = fc.array(
    fc.constantFrom("Unaffable", "the", "THE", "Café", ",", "漢字", "dogs", " ", "\t", "[SEP]", "xyz", "\u200b"),
    { maxLength: 10 },
  );
  fc.assert(
    fc.property(text, (parts) => {
      const whole = parts.join("");
      assert.deepEqual(
        gguf.encode(whole, { addSpecialTokens: false }),
        json.encode(whole, { addSpecialTokens: false }),
        JSON.stringify(whole),
      );
    }),
  );
  assert.deepEqual(gguf.encode("dogs, the"), [2, 13, 12, 10, 7, 3]);
  assert.equal(gguf.decode([13, 12, 7]), "dogs the");
  assert.equal(json.decode([13, 12, 7]), "dogs the");
});
