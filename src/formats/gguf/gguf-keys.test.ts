import assert from "node:assert/strict";
import { test } from "node:test";
import { FormatError } from "../../core/errors.js";
import { GgufKeys } from "./gguf-keys.js";

const keysOf = (values: Record<string, unknown>, others: Record<string, unknown> = {}) =>
  new GgufKeys(
    new Map([
      ...Object.entries(values).map(([key, value]) => [`arch.${key}`, value] as const),
      ...Object.entries(others),
    ]),
    "arch",
    "f.gguf",
  );
const refuses = (action: () => unknown, details: Record<string, unknown>) =>
  assert.throws(action, (error: Error) => {
    assert.ok(error instanceof FormatError && error.code === "unsupported_model_option");
    for (const [name, value] of Object.entries(details)) assert.equal(error.details[name], value);
    return true;
  });

test("numbers, one for all layers or the same for each", () => {
  const numbers: [unknown, number | null][] = [
    [undefined, null],
    [0, 0],
    [-1.5, -1.5],
    [[3, 3, 3], 3],
    [[7], 7],
  ];
  for (const [value, want] of numbers) assert.equal(keysOf(value === undefined ? {} : { k: value }).number("k"), want);
  for (const value of [Number.NaN, Infinity, "3", true, null, [], [3, 4], ["3"], [Infinity, Infinity]])
    refuses(() => keysOf({ k: value }).number("k"), { file: "f.gguf", param: "arch.k", known: "one finite number" });
});

test("sizes from 1 to a most", () => {
  assert.equal(keysOf({ k: 1 }).size("k"), 1);
  assert.equal(keysOf({ k: 2 ** 32 }).size("k"), 2 ** 32);
  assert.equal(keysOf({ k: 5 }).size("k", 5), 5);
  for (const value of [0, -1, 1.5, 2 ** 32 + 1])
    refuses(() => keysOf({ k: value }).size("k"), {
      value: String(value),
      known: "a whole number from 1 to 4294967296",
    });
  refuses(() => keysOf({ k: 6 }).size("k", 5), { known: "a whole number from 1 to 5" });
  refuses(() => keysOf({}).size("k"), { value: "missing" });
});

test("texts, keys without an architecture, ids of tokens", () => {
  assert.deepEqual([keysOf({ k: "a" }).text("k"), keysOf({}).text("k")], ["a", null]);
  refuses(() => keysOf({ k: 3 }).text("k"), { known: "a string" });
  assert.equal(keysOf({}, { "general.name": "n" }).general("general.name"), "n");
  const id = (value: unknown) => keysOf({}, { "tokenizer.ggml.bos_token_id": value }).tokenId("bos");
  assert.deepEqual([0, 5, 2 ** 32 - 2, 2 ** 32 - 1, -1, 1.5, "5", undefined].map(id), [
    0,
    5,
    2 ** 32 - 2,
    null,
    null,
    null,
    null,
    null,
  ]);
});

test("a key that nobody read is refused, unless it says nothing or does not matter", () => {
  const check = (values: Record<string, unknown>) => {
    const keys = keysOf({ read: 1, also: 2, ...values }, { "archer.k": 3, "general.k": 3 });
    keys.number("read");
    keys.value("also");
    keys.checkAllRead();
  };
  check({ a: 0, b: false, c: [], vocab_size: 9, tensor_data_layout: "x", "rope.scaling.finetuned": true });
  check({ use_parallel_residual: true });
  for (const value of [1, true, "", [0], null, "x".repeat(200)])
    refuses(() => check({ other: value }), {
      param: "arch.other",
      value: String(value).slice(0, 100),
      known: "for arch: read, also",
    });
});
