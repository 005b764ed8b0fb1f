import assert from "node:assert/strict";
import { test } from "node:test";
import { EMPTY_OUTPUT, objectOf, type RequestOutput, sampleOutput } from "../../../test/support/outputs.js";
import { OutputReader, OutputTable } from "../../engine/outputs.js";
import type { RequestTrace } from "../../engine/types.js";
import { addWireOutput, textToWords, toWireOutput, type WireOutput, wordsToText } from "./wire.js";
import { isToReplica, isToRouter } from "./wire-check.js";

/** As the caller gets it. */
function arrived(wire: WireOutput): RequestOutput {
  const table = new OutputTable();
  addWireOutput(table, table.open("x", wire.index ?? 0, "x", 0), wire);
  const rows = new OutputReader<string>((callId) => callId);
  rows.open(table.take(null)!);
  rows.next();
  return objectOf(rows);
}

const trace = { promptTokens: 3 } as RequestTrace;

test("an output comes over the wire as it was; what it does not have is left out", () => {
  const top = [
    { id: 5, logprob: -0.5 },
    { id: 6, logprob: Number.NEGATIVE_INFINITY },
  ];
  const full: RequestOutput = {
    callId: "x",
    index: 2,
    tokens: [5, 6],
    logprobs: [
      { id: 5, logprob: -0.5, top },
      { id: 6, logprob: Number.NEGATIVE_INFINITY, top: [] },
    ],
    finishReason: "stop",
    isLoop: true,
    stopToken: 0,
    promptLogprobs: [null, { id: 7, logprob: -1, top: [] }],
    vector: Float32Array.of(9, 1.5, -2).subarray(1),
    trace,
    error: { code: "aborted", details: {} },
  };
  const wire = toWireOutput("7", 4, sampleOutput(full));
  assert.deepEqual(wire, {
    ...{ id: "7", at: 4, index: 2, tokens: [5, 6], finishReason: "stop", stopToken: 0, isLoop: true, trace },
    logprobs: [
      [5, -0.5, 5, -0.5, 6, null],
      [6, null],
    ],
    promptLogprobs: [null, [7, -1]],
    vector: "AADAPwAAAMA=",
    error: { code: "aborted", details: {} },
  });
  assert.deepEqual(arrived(JSON.parse(JSON.stringify(wire))), {
    ...full,
    vector: Float32Array.of(1.5, -2),
  });
  assert.deepEqual(toWireOutput("7", 0, sampleOutput({ callId: "x" })), { id: "7", at: 0 });
  assert.deepEqual(arrived({ id: "7", at: 0 }), { ...EMPTY_OUTPUT, callId: "x" });
  assert.deepEqual(toWireOutput("7", 0, sampleOutput({ callId: "x", index: 1, tokens: [1] })), {
    id: "7",
    at: 0,
    index: 1,
    tokens: [1],
  });
});

test("words are text and back, wherever they lie; what is left of a word is dropped", () => {
  const words = Int32Array.of(1, -2, 2 ** 31 - 1);
  assert.deepEqual(textToWords(wordsToText(words)), words);
  assert.deepEqual(textToWords(wordsToText(words.subarray(1))), words.slice(1));
  assert.deepEqual(textToWords(Buffer.of(1, 0, 0, 0, 2, 0).toString("base64")), Int32Array.of(1));
});

test("a message has the shape that the wire gives it, or is none", () => {
  const add = {
    ...{ type: "add", id: "0", kind: "generate", prompt: [1], sampling: {}, priority: 0, salt: "", leaseMs: 1 },
    ...{ constraint: null, resumed: null },
  };
  const toReplica: object[] = [
    add,
    { ...add, client: "c", peer: "p", constraint: {}, resumed: { index: 0, tokens: [1] } },
    { type: "abort", id: "0", index: -1 },
    { type: "open", ids: ["0"], leaseMs: 1 },
    { type: "prefixes" },
    { type: "lend", id: "0", identity: "", prompt: [], salt: "", firstPage: 0 },
    { type: "lent", id: "0", url: null },
    { type: "offer", identity: "", url: "" },
  ];
  const output = { id: "0", at: 0 };
  const toRouter: object[] = [
    {
      type: "outputs",
      outputs: [output, { ...output, index: 0, tokens: [1], logprobs: [[1, null]], vector: "", trace: {} }],
    },
    {
      type: "outputs",
      outputs: [{ ...output, finishReason: "stop", stopToken: 1, promptLogprobs: [null, [1, null]] }],
    },
    { type: "outputs", outputs: [{ ...output, error: { code: "x", details: {} } }] },
    { type: "gone", ids: [] },
    { type: "prefixes", epoch: 0, seq: 0, isSnapshot: true, changes: "" },
  ];
  for (const message of toReplica) assert.ok(isToReplica(message), JSON.stringify(message));
  for (const message of toRouter) assert.ok(isToRouter(message), JSON.stringify(message));
  // With any one field of another kind, or without it where it must be there, it is none.
  const may = ["client", "peer"];
  for (const message of toReplica) {
    for (const key of Object.keys(message)) {
      if (key === "type") continue;
      assert.equal(isToReplica({ ...message, [key]: Symbol() }), false, key);
      assert.equal(isToReplica({ ...message, [key]: undefined }), may.includes(key), key);
    }
  }
  for (const more of [
    { tokens: ["a"] },
    { index: "" },
    { logprobs: [1] },
    { logprobs: [["a"]] },
    { error: { code: 1, details: {} } },
    { error: { code: "" } },
    { error: null },
    { promptLogprobs: [1] },
    { vector: [] },
    { trace: null },
  ])
    assert.equal(isToRouter({ type: "outputs", outputs: [{ ...output, ...more }] }), false, JSON.stringify(more));
  for (const odd of [
    {},
    { type: "constructor" },
    { type: 1 },
    { type: "gone" },
    { type: "outputs", outputs: [null] },
    { type: "outputs", outputs: {} },
  ])
    assert.equal(isToRouter(odd) || isToReplica(odd), false, JSON.stringify(odd));
  assert.equal(isToReplica({ ...add, resumed: { index: 0 } }), false);
});
