import assert from "node:assert/strict";
import { test } from "node:test";
import { lineLogger } from "./logger.js";

function linesOf() {
  const lines: string[] = [];
  return { lines, log: lineLogger(30, (line) => lines.push(line)) };
}

test("a line is one JSON object with level, time, fields of the parents, fields and message; lower levels are dropped", () => {
  const { lines, log } = linesOf();
  log.child({ requestId: "r" }).warn({ path: "/a\nb", msg: "x" }, "said");
  log.debug({}, "not this");
  assert.equal(lines.length, 1);
  assert.match(lines[0]!, /^\{.*\}\n$/);
  const { time, ...rest } = JSON.parse(lines[0]!) as Record<string, unknown>;
  assert.deepEqual(rest, { level: 40, requestId: "r", path: "/a\nb", msg: "said" });
  assert.ok(Math.abs(Number(time) - Date.now()) < 60_000);
});

test("errors are written with their stack and their own fields, wherever they are", () => {
  const { lines, log } = linesOf();
  const cause = new RangeError("inner");
  log.error({ err: Object.assign(new TypeError("outer", { cause }), { code: "E" }) }, "failed");
  const { err } = JSON.parse(lines[0]!) as { err: Record<string, unknown> };
  assert.deepEqual([err.type, err.message, err.code], ["TypeError", "outer", "E"]);
  assert.match(String(err.stack), /logger\.test/);
});
