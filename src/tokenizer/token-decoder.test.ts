import assert from "node:assert/strict";
import { test } from "node:test";
import { readTokenDecoder, tryFallbackByte, wordPieceDecoder } from "./token-decoder.js";

const shown = (config: unknown) => {
  const decoder = readTokenDecoder(config, "tokenizer.json");
  const texts = ["\u2581a\u2581", "<0x0A>", "Ġé", "##x", "_b"].map((token) => [
    Buffer.from(decoder.bytes(token, false)).toString("latin1"),
    Buffer.from(decoder.bytes(token, true)).toString("latin1"),
  ]);
  return [decoder.stripsLeadingSpace, ...texts.map(([plain, added]) => (plain === added ? plain : [plain, added]))];
};
const sequence = (...decoders: unknown[]) => ({ type: "Sequence", decoders });
const latin = (text: string) => Buffer.from(text, "utf8").toString("latin1");
const replace = { type: "Replace", pattern: { String: "\u2581" }, content: " " };
const strip = { type: "Strip", content: " ", start: 1, stop: 0 };
const [MARKED, LEVEL] = [latin("\u2581a\u2581"), latin("Ġé")];

test("what each decoder makes of tokens, and of added ones", () => {
  assert.deepEqual(shown({ type: "ByteLevel" }), [false, MARKED, "<0x0A>", [" \xe9", LEVEL], "##x", "_b"]);
  assert.deepEqual(shown({ type: "Metaspace" }), [true, " a ", "<0x0A>", LEVEL, "##x", "_b"]);
  assert.deepEqual(shown({ type: "Metaspace", replacement: "_" }), [true, MARKED, "<0x0A>", LEVEL, "##x", " b"]);
  assert.equal(shown({ type: "Metaspace", prepend_scheme: "never" })[0], false);
  assert.equal(shown({ type: "Metaspace", prepend_scheme: "first", add_prefix_space: false })[0], false);
  assert.equal(shown({ type: "Metaspace", prepend_scheme: "always", add_prefix_space: true })[0], true);
  const llama = sequence(replace, { type: "ByteFallback" }, { type: "Fuse" }, strip);
  assert.deepEqual(shown(llama), [true, " a ", "\n", LEVEL, "##x", "_b"]);
  assert.deepEqual(shown(sequence(sequence(replace))), [false, " a ", "<0x0A>", LEVEL, "##x", "_b"]);
  assert.deepEqual(shown({ type: "WordPiece" }), [true, ` ${MARKED}`, " <0x0A>", ` ${LEVEL}`, "x", " _b"]);
  assert.deepEqual(shown({ type: "WordPiece", prefix: "_" }), [
    true,
    ` ${MARKED}`,
    " <0x0A>",
    ` ${LEVEL}`,
    " ##x",
    "b",
  ]);
  assert.equal(Buffer.from(wordPieceDecoder("##").bytes("##ing", false)).toString(), "ing");
});

test("decoders that cannot be honoured are refused by name", () => {
  for (const bad of [
    null,
    "ByteLevel",
    { type: "CTC" },
    sequence(),
    { type: "Sequence" },
    { type: "Fuse" },
    sequence({ type: "ByteFallback" }, { type: "Fuse" }),
    sequence({ type: "Fuse" }, replace),
    sequence({ ...replace, pattern: { Regex: "a" } }),
    sequence({ ...replace, pattern: { String: "" } }),
    sequence({ ...replace, content: 5 }),
    sequence(replace, strip),
    sequence(replace, { type: "WordPiece" }),
    ...[{ content: "_" }, { start: 0 }, { stop: 1 }].map((part) =>
      sequence(replace, { type: "Fuse" }, { ...strip, ...part }),
    ),
  ])
    assert.throws(
      () => readTokenDecoder(bad, "tokenizer.json"),
      /tokenizer\.json.*decoder = .*ByteLevel, Metaspace/s,
      JSON.stringify(bad),
    );
});

test("fallback tokens are two hexadecimal digits", () => {
  const tokens = ["<0x00>", "<0xfF>", "<0x1>", "<0x100>", "0x0A>", "<0xGG>", "<0X0A>"];
  assert.deepEqual(tokens.map(tryFallbackByte), [0, 255, null, null, null, null, null]);
});
