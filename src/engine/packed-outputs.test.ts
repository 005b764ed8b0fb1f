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
