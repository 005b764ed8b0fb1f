// What crosses between the threads arrives as it was sent, whatever the messages before had in them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { philox4x32 } from "../core/random.js";
import type { RequestOutput } from "./messages.js";
import { OutputPacker, OutputUnpacker } from "./packed-outputs.js";
import type { StepRecord } from "./types.js";

const NOTHING = { logprobs: null, finishReason: null, stopToken: -1, promptLogprobs: null, vector: null } as const;

test("outputs arrive as they were sent, in their order", () => {
  const packer = new OutputPacker();
  const unpacker = new OutputUnpacker();
  const drawn = new Uint32Array(4);
  for (let message = 0; message < 300; message++) {
    philox4x32(drawn, message, 0, 0, 0, 7, 0);
    // Rows stay for a while, then another has joined or left, or a message has none.
    const numRows = drawn[0]! % 9 === 0 ? 0 : 3 + (Math.floor(message / 5) % 4);
    const outputs = Array.from({ length: numRows }, (_, r) => outputOf(r, message, (drawn[1]! >>> (2 * r)) & 3));
    const sent = { type: "outputs", outputs, step: drawn[2]! % 7 === 0 ? null : recordOf(numRows, message) } as const;
    assert.deepEqual(unpacker.unpack(structuredClone(packer.pack(sent))), sent);
  }
});

test("a token and nothing else is one integer; whose it is, is said when it changes", () => {
  const packer = new OutputPacker();
  const plain = (row: number, index: number, token: number): RequestOutput => ({
    ...{ callId: `call-${row}`, index, tokens: [token], ...NOTHING, trace: null, error: null },
  });
  const packed = (outputs: RequestOutput[], numRows = 0) => {
    const { callIds, indexes, tokens, places, rowIds, rows } = structuredClone(
      packer.pack({ type: "outputs", outputs, step: numRows === 0 ? null : recordOf(numRows, 7) }),
    );
    return [callIds, indexes, tokens, places, rowIds, rows];
  };
  const ints = (...values: number[]) => Int32Array.from(values);
  const two = [plain(1, 0, 5), plain(2, 1, 6)];
  assert.deepEqual(packed(two, 1), [["call-1", "call-2"], ints(0, 1), ints(5, 6), [], ["call-0"], ints(7, 1, 0)]);
  assert.deepEqual(packed(two, 1), [null, null, ints(5, 6), [], null, ints(7, 1, 0)]);
  assert.deepEqual(packed([plain(1, 0, 9)]), [["call-1"], ints(0), ints(9), [], null, ints()], "one has left");
  assert.deepEqual(packed([plain(1, 0, 8)]), [null, null, ints(8), [], null, ints()]);
  assert.deepEqual(packed([plain(1, 1, 8)]), [["call-1"], ints(1), ints(8), [], null, ints()], "another sample");
  const ended: RequestOutput = { ...plain(3, 0, 1), finishReason: "length" };
  assert.deepEqual(packed([ended, plain(1, 1, 7)]), [null, null, ints(7), [0], null, ints()]);
});

test("whatever else an output says arrives, too", () => {
  const others: Partial<RequestOutput>[] = [
    { finishReason: "length" },
    { promptLogprobs: [null] },
    { vector: Float32Array.of(1, 2) },
    { trace: { steps: 3 } as NonNullable<RequestOutput["trace"]> },
    { stopToken: 0 },
  ];
  for (const other of others) {
    const output = { callId: "a", index: 0, tokens: [1], ...NOTHING, trace: null, error: null, ...other };
    const sent = { type: "outputs", outputs: [output], step: null } as const;
    assert.deepEqual(new OutputUnpacker().unpack(structuredClone(new OutputPacker().pack(sent))), sent);
  }
});

/** One in four says more than a token. */
function outputOf(row: number, message: number, kind: number): RequestOutput {
  const plain = { callId: `call-${row}`, index: row & 1, tokens: [message], ...NOTHING, trace: null, error: null };
  if (kind !== 0) return plain;
  switch (message % 5) {
    case 0:
      return { ...plain, finishReason: "stop", stopToken: 2 };
    case 1:
      return { ...plain, tokens: [] };
    case 2:
      return { ...plain, tokens: [1, 2] };
    case 3:
      return { ...plain, logprobs: [{ id: 1, logprob: -1, top: [] }] };
    default:
      return { ...plain, error: { code: "aborted", details: {} } };
  }
}

function recordOf(numRows: number, step: number): StepRecord {
  const rows = Array.from({ length: numRows }, (_, r) => ({
    id: `call-${r}${step > 150 ? "#1" : ""}`,
    start: step + r,
    queryLen: 1 + r,
    contextLen: step + 2 * r + 1,
    isPrefill: r === 2,
  }));
  const pages = { pagesFree: 3, pagesCached: 2, pagesUsed: 1 };
  const times = { startMs: 0.5, durationMs: 1.25 };
  return { step, ...times, rows, tokens: 5, budget: 9, paddingAvoided: 0, ...pages, waiting: 0, preempted: ["x"] };
}
