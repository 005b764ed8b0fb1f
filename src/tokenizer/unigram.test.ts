import assert from "node:assert/strict";
import { test } from "node:test";
import { Charsmap } from "./charsmap.js";
import { GgufTokenizer } from "./gguf-tokenizer.js";
import { JsonTokenizer } from "./json-tokenizer.js";

const [NORMAL, UNKNOWN, CONTROL] = [1, 2, 3];

/** A charsmap of single-byte or longer keys, built as a double array with an offset of its own for every node. */
function charsmap(entries: Readonly<Record<string, string>>): Uint8Array {
  const replacements: number[] = [];
  const starts = new Map<string, number>();
  for (const [key, value] of Object.entries(entries)) {
    starts.set(key, replacements.length);
    replacements.push(...Buffer.from(value), 0);
  }
  const keys = [...starts.keys()].map((key) => ({ bytes: [...Buffer.from(key)], value: starts.get(key)! }));
  const units: number[] = [0];
  let nextBase = 256; // every node gets 256 places that nobody else has
  const place = (node: number, depth: number, own: typeof keys): void => {
    const base = nextBase;
    nextBase += 256;
    const offset = node ^ base;
    const leaf = own.find(({ bytes }) => bytes.length === depth);
    units[node] = (units[node] ?? 0) | ((offset << 10) >>> 0) | (leaf === undefined ? 0 : 0x100);
    if (leaf !== undefined) units[base] = (0x80000000 | leaf.value) >>> 0;
    for (const byte of new Set(own.flatMap(({ bytes }) => (bytes.length > depth ? [bytes[depth]!] : [])))) {
      units[base ^ byte] = byte;
      place(
        base ^ byte,
        depth + 1,
        own.filter(({ bytes }) => bytes[depth] === byte),
      );
    }
  };
  place(0, 0, keys);
  const trie = Uint32Array.from({ length: nextBase }, (_, i) => units[i] ?? 0);
  const size = Buffer.alloc(4);
  size.writeUInt32LE(trie.byteLength);
  return Buffer.concat([size, Buffer.from(trie.buffer), Buffer.from(replacements)]);
}

const MAP = charsmap({ "\t": " ", ﬁ: "fi", Ａ: "A", "e\u0301": "é", "\u0007": "" });

test("SentencePiece takes the longest match, Hugging Face the shortest of a cluster of fewer than six bytes", () => {
  const map = new Charsmap(charsmap({ e: "E", "e\u0301": "é", "\u00e9": "X" }), "x");
  assert.equal(map.normalize("e\u0301e"), "éE");
  assert.equal(map.normalizeClusters("e\u0301e"), "EE");
  assert.equal(map.normalizeClusters("e\u0301\u0301"), "E", "five bytes");
  assert.equal(map.normalizeClusters("\u00e9\u0301\u0301"), "X\u0301\u0301", "six");
  for (const normalize of [map.normalize.bind(map), map.normalizeClusters.bind(map)])
    assert.equal(normalize("a\u07ff\u0800\uffff\u{10000}b"), "a\u07ff\u0800\uffff\u{10000}b");
});

test("a charsmap replaces what it knows and leaves the rest", () => {
  const map = new Charsmap(MAP, "x");
  for (const normalize of [map.normalize.bind(map), map.normalizeClusters.bind(map)]) {
    assert.equal(normalize("ﬁne\tＡ e\u0301 漢🐉\u0007!"), "fine A é 漢🐉!");
    assert.equal(normalize(""), "");
  }
  assert.throws(() => new Charsmap(Uint8Array.of(1, 2, 3), "x"), /precompiled_charsmap/);
  assert.throws(() => new Charsmap(Uint8Array.of(255, 0, 0, 0, 1), "x"), /precompiled_charsmap/);
});

const PIECES: [string, number][] = [
  ["▁", -3],
  ["▁fi", -4],
  ["ne", -4],
  ["▁fine", -9],
  ["▁A", -5],
  ["f", -6],
  ["i", -6],
  ["n", -6],
  ["e", -6],
  ["é", -7],
];

function gguf(more: Record<string, unknown> = {}): GgufTokenizer {
  const rows: [string, number, number][] = [
    ["<s>", 0, CONTROL!],
    ["<pad>", 0, CONTROL!],
    ["</s>", 0, CONTROL!],
    ["<unk>", 0, UNKNOWN!],
    ...PIECES.map(([token, score]): [string, number, number] => [token, score, NORMAL!]),
  ];
  const fields = {
    model: "t5",
    tokens: rows.map(([token]) => token),
    scores: rows.map(([, score]) => score),
    token_type: rows.map(([, , type]) => type),
    bos_token_id: 0,
    eos_token_id: 2,
    unknown_token_id: 3,
    add_bos_token: true,
    add_eos_token: true,
    precompiled_charsmap: [...MAP],
    ...more,
  };
  return new GgufTokenizer(
    new Map(Object.entries(fields).map(([key, value]) => [`tokenizer.ggml.${key}`, value])),
    "x",
  );
}

/** The same vocabulary as tokenizer.json has it. */
function json(): JsonTokenizer {
  const special = ["<s>", "<pad>", "</s>", "<unk>"];
  const token = (id: string) => ({ SpecialToken: { id, type_id: 0 } });
  const text = (id: string) => ({ Sequence: { id, type_id: 0 } });
  return new JsonTokenizer({
    file: "x",
    json: {
      version: "1.0",
      added_tokens: special.map((content, id) => ({
        id,
        content,
        special: true,
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
      })),
      normalizer: { type: "Precompiled", precompiled_charsmap: Buffer.from(MAP).toString("base64") },
      pre_tokenizer: {
        type: "Sequence",
        pretokenizers: [
          { type: "WhitespaceSplit" },
          { type: "Metaspace", replacement: "▁", add_prefix_space: true, prepend_scheme: "always" },
        ],
      },
      post_processor: {
        type: "TemplateProcessing",
        single: [token("<s>"), text("A"), token("</s>")],
        pair: [token("<s>"), text("A"), token("</s>"), token("</s>"), text("B"), token("</s>")],
        special_tokens: {
          "<s>": { id: "<s>", ids: [0], tokens: ["<s>"] },
          "</s>": { id: "</s>", ids: [2], tokens: ["</s>"] },
        },
      },
      decoder: { type: "Metaspace", replacement: "▁", add_prefix_space: true },
      model: { type: "Unigram", unk_id: 3, vocab: [...special.map((s): [string, number] => [s, 0]), ...PIECES] },
    },
  });
}

test("Unigram: the best sum of scores, unknown runs as one, in both files alike", () => {
  const [a, b] = [gguf(), json()];
  const pieces = (tokenizer: GgufTokenizer | JsonTokenizer, text: string) =>
    tokenizer.encode(text).map((id) => tokenizer.idToToken(id));
  // -4 -4 is better than -9.
  assert.deepEqual(pieces(a, "ﬁne"), ["<s>", "▁fi", "ne", "</s>"]);
  assert.deepEqual(pieces(a, "  fine\t Ａ漢字🐉e\u0301 "), ["<s>", "▁fi", "ne", "▁A", "<unk>", "é", "</s>"]);
  for (const text of ["ﬁne", "fine Ａ", "e\u0301", "Afi 漢字 nef", "A🐉", "fi\u0007ne"]) {
    assert.deepEqual(b.encode(text), a.encode(text), text);
    assert.deepEqual(
      b.encode(text, { addSpecialTokens: false, content: [[0, text.length]] }),
      a.encode(text).slice(1, -1),
      text,
    );
  }
  const frame = { before: [0], between: [2, 2], after: [2], hasTypes: false };
  assert.deepEqual(a.frame(true), frame);
  assert.deepEqual(b.frame(true), frame);
  assert.equal(a.decode(a.encode("fine A"), { skipSpecialTokens: true }), "fine A");
});

test("Unigram: tokens for text are the plain, the user's and the unused; bytes and controls are not", () => {
  const tokens = ["<s>", "</s>", "<unk>", "a", "b", "c", "d", "e"];
  const fields = {
    ...{ model: "t5", tokens, bos_token_id: 0, eos_token_id: 1, unknown_token_id: 2 },
    scores: [0, 0, 0, -1, 0, 0, -50, -50],
    token_type: [CONTROL, CONTROL, UNKNOWN, NORMAL, 4, 5, 6, CONTROL],
    ...{ add_space_prefix: false, remove_extra_whitespaces: false, add_bos_token: false, add_eos_token: false },
  };
  const tokenizer = new GgufTokenizer(
    new Map<string, unknown>(Object.entries(fields).map(([key, value]) => [`tokenizer.ggml.${key}`, value])),
    "x",
  );
  const content = [[0, 1]] as const;
  assert.deepEqual(
    [..."abcde"].map((char) => tokenizer.encode(char, { content })),
    [[3], [4], [5], [2], [2]],
  );
});

test("a charsmap of tokenizer.json is what it says, not the library's rules; an empty one changes nothing", () => {
  const make = (precompiled_charsmap: string) =>
    new JsonTokenizer({
      file: "x",
      json: {
        version: "1.0",
        normalizer: { type: "Sequence", normalizers: [{ type: "Precompiled", precompiled_charsmap }] },
        model: { type: "Unigram", unk_id: 0, vocab: ["<unk>", "a", "q", "fi", "ﬁ"].map((token) => [token, -1]) },
        decoder: { type: "Metaspace", replacement: "▁", add_prefix_space: true },
      },
    });
  const swapped = make(Buffer.from(charsmap({ q: "a", a: "q" })).toString("base64"));
  assert.deepEqual(swapped.encode("aqﬁ"), [2, 1, 4]);
  assert.deepEqual(make("").encode("aq"), [1, 2]);
});

test("two texts are framed where every processor knows how", () => {
  const token = (id: string) => ({ SpecialToken: { id, type_id: 0 } });
  const single = [token("<s>"), { Sequence: { id: "A", type_id: 0 } }];
  const pair = [...single, token("<s>"), { Sequence: { id: "B", type_id: 1 } }];
  const template = (more: object) => ({
    ...{ type: "TemplateProcessing", single, special_tokens: { "<s>": { id: "<s>", ids: [1], tokens: ["<s>"] } } },
    ...more,
  });
  const frame = (post_processor: unknown) =>
    new JsonTokenizer({
      file: "f.json",
      json: {
        version: "1.0",
        post_processor,
        model: { type: "Unigram", unk_id: 0, vocab: ["<unk>", "<s>", ..."onetw"].map((piece) => [piece, -1]) },
        decoder: { type: "Metaspace", replacement: "▁", add_prefix_space: true },
      },
    }).frame(true);
  const framed = { before: [1], between: [1], after: [], hasTypes: true };
  assert.deepEqual(frame(template({ pair })), framed);
  assert.deepEqual(frame({ type: "Sequence", processors: [template({ pair })] }), framed);
  for (const processor of [template({}), template({ pair: null })])
    for (const post of [processor, { type: "Sequence", processors: [template({ pair }), processor] }])
      assert.throws(() => frame(post), /f\.json: post_processor\.pair: expected a template of two texts/);
});

test("a control token's name that is a word of the vocabulary too is written by its characters", () => {
  const special = { special: true, single_word: false, lstrip: false, rstrip: false, normalized: false };
  const vocab = ["<unk>", "<s>", "<", "s", ">", "x"].map((token): [string, number] => [
    token,
    token === "<s>" ? 0 : -5,
  ]);
  const tokenizer = new JsonTokenizer({
    file: "x",
    json: {
      version: "1.0",
      added_tokens: ["<unk>", "<s>"].map((content, id) => ({ id, content, ...special })),
      model: { type: "Unigram", unk_id: 0, vocab },
      decoder: { type: "Metaspace", replacement: "▁", add_prefix_space: true },
    },
  });
  assert.deepEqual(tokenizer.encode("x<s>x", { content: [[0, 5]] }), [5, 2, 3, 4, 5]);
  assert.deepEqual(tokenizer.encode("x<s>x", { content: [[0, 1]] }), [5, 1, 5]);
});

test("Unigram without joined spaces keeps them all", () => {
  const tokenizer = gguf({ remove_extra_whitespaces: false, add_space_prefix: false });
  const pieces = tokenizer.encode("  fine", { addSpecialTokens: false }).map((id) => tokenizer.idToToken(id));
  assert.deepEqual(pieces, ["▁", "▁fi", "ne"]);
});
