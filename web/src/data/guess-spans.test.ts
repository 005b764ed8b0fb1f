import assert from "node:assert/strict";
import { test } from "node:test";
import { shownSpans } from "./guess-spans.js";

const partsOf = (source: string, shown: string, guessed: readonly string[]): string[] => {
  const spans = guessed.map((part): [number, number] => [source.indexOf(part), source.indexOf(part) + part.length]);
  return shownSpans(source, shown, spans).map(([start, end]) => shown.slice(start, end));
};

test("parts of plain text are where they were", () => {
  assert.deepEqual(partsOf("one two three", "one two three", ["two", "ree"]), ["two", "ree"]);
});

test("markup is not shown", () => {
  const source = "# Head\n\nSome **bold words** and `code`.\n\n- first\n- second";
  const shown = "Head\nSome bold words and code.\n\nfirst\nsecond\n";
  assert.deepEqual(partsOf(source, shown, ["**bold words**", "`code`", "- second"]), ["bold words", "code", "second"]);
});

test("after a part that is shown otherwise, the place is found again", () => {
  const source = `a &amp; b ${"[link](https://example.com/a/long/address) "}and then the rest of it`;
  const shown = "a & b link and then the rest of it";
  assert.deepEqual(partsOf(source, shown, ["the rest of it"]), ["the rest of it"]);
});
