import assert from "node:assert/strict";
import { test } from "node:test";
import { StyledWriter } from "./styled-writer.js";

function written(text: string, width: number, styled: boolean, pieceLen: number): string {
  let out = "";
  const writer = new StyledWriter({
    width,
    styled,
    write: (piece) => {
      out += piece;
    },
  });
  for (let i = 0; i < text.length; i += pieceLen) writer.push(text.slice(i, i + pieceLen));
  writer.end();
  return out;
}

const SAMPLE =
  "# Plan\n\nUse **two words** and `a_b` here: 2 * 3.\n- one\n- *two*\n```ts\nconst x = 1 ** 2;\n```\nEnd.";

test("how the answer is cut into pieces does not change what is written", () => {
  for (const [width, styled] of [
    [0, true],
    [20, true],
    [20, false],
  ] as const) {
    const whole = written(SAMPLE, width, styled, SAMPLE.length);
    for (const pieceLen of [1, 2, 3, 7]) assert.equal(written(SAMPLE, width, styled, pieceLen), whole);
  }
});

test("without styles and margin the text passes unchanged", () => {
  assert.equal(written(SAMPLE, 0, false, 3), SAMPLE);
});

test("what is no text reaches a terminal as what it is called", () => {
  assert.ok(!written("a\x1b]52;c;eA==\x07b", 0, true, 2).includes("\x1b]"));
});

test("markdown is shown, not spelled out; code is left as it is", () => {
  const out = written(SAMPLE, 0, true, 4);
  assert.ok(out.includes("\x1b[1mtwo words\x1b[0m"));
  assert.ok(out.includes("\x1b[36ma_b\x1b[0m"));
  assert.match(out, /2 \* 3\./);
  assert.match(out, /• one/);
  assert.ok(out.includes("\x1b[1m\x1b[4mPlan"));
  assert.ok(out.includes("const x = 1 ** 2;"));
});

test("no word crosses the margin, and only spaces become line breaks", () => {
  const text = "the quick brown fox jumps over the lazy dog again and again ".repeat(5);
  const out = written(text, 17, false, 5);
  for (const line of out.split("\n")) assert.ok(line.length <= 17, JSON.stringify(line));
  assert.equal(out.replace(/\s+/g, " ").trim(), text.trim());
  assert.deepEqual(written("x".repeat(40), 16, false, 9).replaceAll("\n", ""), "x".repeat(40));
});
