import assert from "node:assert/strict";
import { test } from "node:test";
import { Seal } from "./seal.js";

const bytes = (text: string): Uint8Array => Buffer.from(text);
const textOf = (opened: Uint8Array | null): string | null => (opened === null ? null : Buffer.from(opened).toString());

test("what a member seals opens once, at its place, with the same secret, unchanged", () => {
  const [ours, theirs, strange] = [new Seal("secret"), new Seal("secret"), new Seal("guess")];
  const sealed = ours.close("inbox.b", bytes('{"a":1}\n{}'));
  assert.equal(strange.open("inbox.b", sealed), null);
  assert.equal(theirs.open("inbox.c", sealed), null, "another place");
  for (let i = 0; i < sealed.length; i++) {
    const changed = Uint8Array.from(sealed);
    changed[i]! ^= 1;
    assert.equal(theirs.open("inbox.b", changed), null, `byte ${i}`);
  }
  assert.equal(textOf(theirs.open("inbox.b", sealed)), '{"a":1}\n{}');
  assert.equal(theirs.open("inbox.b", sealed), null, "said again");
  for (const strangers of ["", "!", "{}", "!short\n{}"]) assert.equal(theirs.open("inbox.b", bytes(strangers)), null);
});

test("without a secret nothing is sealed, and nothing sealed is understood", () => {
  const open = new Seal(null);
  assert.equal(textOf(open.open("a", open.close("a", bytes("{}")))), "{}");
  assert.equal(open.open("a", new Seal("secret").close("a", bytes("{}"))), null);
  assert.equal(open.isCodeOf("", "a", bytes("x")), true);
});

test("bytes that go another way have a code for their place", () => {
  const seal = new Seal("secret");
  const code = seal.codeOf("ticket", bytes("pages"));
  assert.deepEqual(
    [
      seal.isCodeOf(code, "ticket", bytes("pages")),
      seal.isCodeOf(code, "ticket", bytes("other")),
      seal.isCodeOf("", "ticket", bytes("pages")),
    ],
    [true, false, false],
  );
});

test("what stays at its place is read again until more is said, never after, and never five minutes later", (t) => {
  let nowMs = 1e12;
  t.mock.method(Date, "now", () => nowMs);
  const [ours, theirs] = [new Seal("secret"), new Seal("secret")];
  const [first, second] = ["1", "2"].map((text) => ours.close("entry", bytes(text))) as [Uint8Array, Uint8Array];
  for (let times = 0; times < 2; times++) assert.equal(textOf(theirs.read("entry", first)), "1");
  assert.equal(theirs.open("entry", first), null, "it is no news");
  assert.equal(textOf(theirs.open("entry", second)), "2");
  assert.deepEqual([theirs.read("entry", first), theirs.open("entry", first)], [null, null]);
  for (const [laterMs, text] of [
    [300_000, "2"],
    [300_001, null],
    [-300_001, null],
  ] as const) {
    nowMs = 1e12 + laterMs;
    assert.equal(
      textOf(new Seal("secret").read("entry", second)),
      text,
      `${laterMs} ms later, to one that just started`,
    );
  }
});
