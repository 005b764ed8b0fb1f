import assert from "node:assert/strict";
import { test } from "node:test";
import { forOutput, printable } from "./printable.js";

test("control characters are shown, tabs and line ends are kept", () => {
  assert.equal(printable("a\tb\nc"), "a\tb\nc");
  assert.equal(printable("\x1b]52;c;eA==\x07\r\x9b2J\x7f"), "\\x1b]52;c;eA==\\x07\\x0d\\x9b2J\\x7f");
  assert.equal(printable("é 中 🙂"), "é 中 🙂");
  assert.deepEqual([forOutput("\x1b", { isTTY: true }), forOutput("\x1b", {})], ["\\x1b", "\x1b"]);
});
