import assert from "node:assert/strict";
import { test } from "node:test";
import { readableLine } from "./readable-log.js";

const TIME = new Date(2026, 0, 2, 3, 4, 5).getTime();
const said = (fields: object, hasColor = false) =>
  readableLine(JSON.stringify({ level: 30, time: TIME, pid: 1, hostname: "h", ...fields }), hasColor);

test("a request is one short line: what it cost, or why it failed", () => {
  const asked = { msg: "request", requestId: "r", method: "POST", path: "/v1/chat/completions", tenant: "anonymous" };
  const numbers = {
    promptTokens: 7,
    cachedTokens: 0,
    completionTokens: 179,
    ttftMs: 24.1,
    queuedMs: 3,
    preemptions: 0,
  };
  assert.equal(
    said({ ...asked, status: 200, ms: 1240.4, ...numbers }),
    "03:04:05  200  1240 ms  POST /v1/chat/completions  7 + 179 tokens, first after 24 ms\n",
  );
  const slow = { ...numbers, cachedTokens: 4, queuedMs: 250, preemptions: 2 };
  assert.match(
    said({ ...asked, tenant: "key-ab", status: 200, ms: 12_400, ...slow }),
    /12\.4 s .* 7 \(4 cached\) \+ 179 tokens, .*queued 250 ms, preempted 2 x, key-ab\n$/,
  );
  const failure = { status: 404, code: "model_not_found", message: "no \x1b]0;x\x07 here" };
  const refused = said({ ...asked, status: 404, ms: 2, failure }, true);
  assert.ok(refused.includes("\x1b[33m404\x1b[0m"), refused);
  assert.ok(refused.endsWith(" model_not_found: no \\x1b]0;x\\x07 here\n"), refused);
});

test("other lines keep their fields and the stack of an error; what is no JSON stays as it is", () => {
  assert.equal(said({ msg: "listening", port: 1 }), "03:04:05  listening  port=1\n");
  assert.equal(
    said({ level: 50, msg: "gone", err: { message: "m", stack: "Error: m\n    at x" } }),
    "03:04:05  error  gone\nError: m\n    at x\n",
  );
  assert.equal(readableLine("plain\n", false), "plain\n");
});
