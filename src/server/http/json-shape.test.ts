import assert from "node:assert/strict";
import { test } from "node:test";
import { seeded } from "../../../test/support/byte-matcher.js";
import { type Excess, type JsonLimits, JsonShape } from "./json-shape.js";

const NO_LIMITS = { depth: 200, containers: 1e9, values: 1e9, string: 1e9, items: {} };

/** Read whole, byte by byte and in pieces: all alike. */
function exceededLimit(bytes: Uint8Array, limits: JsonLimits): Excess | null {
  const [whole, ...others] = [bytes.length, 1, 7, 301].map((size) => {
    const shape = new JsonShape(limits);
    for (let i = 0; i < bytes.length; i += size) {
      const excess = shape.exceeds(bytes.subarray(i, i + size));
      if (excess !== null) return excess;
    }
    return null;
  });
  for (const other of others) assert.deepEqual(other, whole);
  return whole!;
}

const isDeeperThan = (depth: number, bytes: Uint8Array): boolean =>
  exceededLimit(bytes, { ...NO_LIMITS, depth })?.limit === "depth";

const nested = (depth: number, inner: string): Uint8Array =>
  new TextEncoder().encode("[".repeat(depth) + inner + "]".repeat(depth));

test("depth is counted outside of strings, whatever they hold and however long they are", () => {
  const random = seeded(3);
  const pieces = ["[", "{", '"', "\\", "]", "a", "b".repeat(300), "\\\\", '\\"', "é"];
  for (let i = 0; i < 300; i++) {
    const text = Array.from({ length: 1 + random() * 12 }, () => pieces[Math.floor(random() * pieces.length)]).join("");
    const body = nested(5, `${JSON.stringify(text)}, [{}]`);
    assert.deepEqual([isDeeperThan(7, body), isDeeperThan(6, body)], [false, true], text);
  }
});

test("what is closed again is not deep, however much of it there is", () => {
  assert.equal(isDeeperThan(6, nested(5, `${"[],{},".repeat(300)}[]`)), false);
});

test("values behind commas are counted, those inside strings are none", () => {
  const body = new TextEncoder().encode(`{"a": [1, 2, "3, 4, 5"], "b": {"c": 6}}`);
  const exceeded = [2, 3].map((values) => exceededLimit(body, { ...NO_LIMITS, values })?.limit);
  assert.deepEqual(exceeded, ["values", undefined]);
});

test("objects and lists are counted", () => {
  const body = nested(3, '{"a": [], "[]": "{}"}');
  const exceeded = [4, 5].map((containers) => exceededLimit(body, { ...NO_LIMITS, containers }));
  assert.deepEqual(exceeded, [{ limit: "containers", field: null }, null]);
});

test("items of a field are counted: not what is inside them, nor another field's", () => {
  const exceeded = (body: string, items: Record<string, number>) =>
    exceededLimit(new TextEncoder().encode(body), { ...NO_LIMITS, items });
  const list = '{"b": [1, 2, 3], "a": [{"x": 1, "y": 2}, [3, 4, 5], "6, 7"], "c": {"d": 1, "e": 2}}';
  assert.equal(exceeded(list, { a: 3, c: 2, d: 0 }), null);
  assert.deepEqual(exceeded(list, { a: 2 }), { limit: "items", field: "a" });
  assert.deepEqual(exceeded(list, { c: 1 }), { limit: "items", field: "c" });
  assert.equal(exceeded(`{"x": ${list}}`, { a: 1 }), null, "of the outermost object");
  assert.equal(exceeded('{"toString": [1, 2]}', {}), null);
});

test("strings are measured as they are written, keys too", () => {
  for (const [body, length] of [
    ['{"a": "xyz"}', 3],
    ['{"long": 1}', 4],
    ['["\\"\\u0041"]', 8],
    [`["${"x".repeat(1000)}", "y"]`, 1000],
  ] as const) {
    const bytes = new TextEncoder().encode(body);
    const exceeded = [length - 1, length].map((string) => exceededLimit(bytes, { ...NO_LIMITS, string })?.limit);
    assert.deepEqual(exceeded, ["string", undefined], body);
  }
});

test("the field is named: a key of the outermost object, not one further in, nor a text", () => {
  const fieldOf = (body: string) => exceededLimit(new TextEncoder().encode(body), { ...NO_LIMITS, string: 8 })?.field;
  const long = "x".repeat(9);
  assert.equal(fieldOf(`{"model": "tools", "prompt" : "${long}"}`), "prompt");
  assert.equal(fieldOf(`{"messages": [{"role": "user", "content": "${long}"}]}`), "messages");
  assert.equal(fieldOf(`{"a\\"b": "${long}"}`), null);
  assert.equal(fieldOf(`["${long}"]`), null);
});

test("a name of up to 64 letters is repeated, none that is longer or empty", () => {
  const fieldOf = (name: string) =>
    exceededLimit(new TextEncoder().encode(`{"${name}": [[]]}`), { ...NO_LIMITS, depth: 2 })?.field;
  for (const length of [1, 2, 63, 64]) assert.equal(fieldOf("n".repeat(length)), "n".repeat(length));
  for (const length of [0, 65, 66, 100]) assert.equal(fieldOf("n".repeat(length)), null, `${length}`);
});

test("an escaped quote after a long run is no end of the text, wherever the run stands", () => {
  for (let length = 250; length < 270; length++) {
    for (const [ending, isOpen] of [
      ['\\"', true],
      ['\\\\"', false],
      ['\\\\\\"', true],
    ] as const) {
      const bytes = new TextEncoder().encode(`["${"x".repeat(length)}${ending}[[`);
      assert.equal(isDeeperThan(2, bytes), !isOpen, `${length} ${ending}`);
    }
  }
});

test("a text that is too long is known before its end", () => {
  const shape = new JsonShape({ ...NO_LIMITS, string: 1000 });
  assert.equal(shape.exceeds(Buffer.from(`{"prompt": "${"x".repeat(900)}`)), null);
  assert.deepEqual(shape.exceeds(Buffer.from("x".repeat(101))), { limit: "string", field: "prompt" });
});

test("texts that are not JSON end too", () => {
  for (const inner of ['"', `"${"x".repeat(400)}`, `"${"x".repeat(400)}\\"`, '"\\'])
    assert.equal(isDeeperThan(5, nested(5, inner)), false);
  assert.equal(isDeeperThan(200, nested(50_000, "")), true);
});
