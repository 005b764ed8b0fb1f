// What crosses between the threads arrives as it was written, whoever a handle meant before.

import assert from "node:assert/strict";
import { test } from "node:test";
import { OutputObjects, OutputWriter, type RequestOutput } from "../../test/support/outputs.js";
import { makeRandom } from "../../test/support/random.js";
import { Block, Column, OutputReader, OutputTable, type StepColumns } from "./outputs.js";

test("samples come and go: every one gets its own tokens, log-probabilities and notes, in order", () => {
  const random = makeRandom(7);
  const writer = new OutputWriter();
  const reader = new OutputObjects();
  let live: string[] = [];
  let numCalls = 0;
  let numRows = 0;
  let numHandles = 0;
  for (let message = 0; message < 300; message++) {
    while (live.length < 6) live.push(`call ${numCalls++}`);
    const outputs = live
      .filter(() => random(4) > 0)
      .map((callId) => outputOf(callId, Number(callId.slice(5)) % 3, random));
    const sent = writer.message(outputs);
    assert.deepEqual(reader.of(structuredClone(sent)), outputs);
    numRows += outputs.length;
    for (const handle of sent.handles) numHandles = Math.max(numHandles, handle + 1);
    const ended = outputs.filter(({ finishReason }) => finishReason !== null).map(({ callId }) => callId);
    live = live.filter((callId) => !ended.includes(callId));
  }
  assert.ok(numHandles < numCalls / 4, `${numHandles} handles for ${numCalls} calls`);
  assert.ok(numRows > 1000 && numCalls > 100, `${numRows} rows of ${numCalls} calls`);
});

test("a handle that was given back within a message is another's only in the next", () => {
  const table = new OutputTable();
  const first = table.open("a", 0, "a", 3);
  table.addRow(first, { finishReason: "abort" });
  table.close(first);
  const second = table.open("b", 0, "b", 3);
  assert.notEqual(second, first);
  assert.deepEqual([...table.take(null)!.handles], [first]);
  assert.equal(table.take(null), null, "nothing to say");
  assert.equal(table.open("c", 1, "c#1", 3), first);
  table.addRow(second);
  const { opened, logprobs, notes } = table.take(null)!;
  assert.deepEqual(
    [opened, logprobs, notes],
    [[{ handle: first, callId: "c", index: 1, id: "c#1", promptLen: 3 }], null, []],
  );
});

test("a step's rows are described when they are read, also after a handle became another's", () => {
  const reader = new OutputReader<string>(() => undefined);
  const table = new OutputTable();
  const handle = table.open("a", 2, "a#2", 4);
  const step = (...starts: number[]) => ({
    ...{ step: 1, handles: Int32Array.from(starts, () => handle), starts: Int32Array.from(starts) },
    queryLens: Int32Array.from(starts, () => 2),
  });
  const recordOf = (columns: object) => {
    const message = table.take(columns as StepColumns)!;
    reader.open(message);
    assert.equal(reader.next(), false);
    return reader.recordOf(message.step!);
  };
  const record = recordOf(step(3, 4));
  table.close(handle);
  table.take(null);
  assert.equal(table.open("b", 0, "b", 9), handle);
  assert.equal(recordOf(step(8)).rows[0]!.id, "b");
  assert.deepEqual(JSON.parse(JSON.stringify(record)), {
    step: 1,
    rows: [
      { id: "a#2", start: 3, queryLen: 2, contextLen: 5, isPrefill: true },
      { id: "a#2", start: 4, queryLen: 2, contextLen: 6, isPrefill: false },
    ],
  });
});

test("nobody hears of a sample whose call is gone, nor of one after its end", () => {
  const calls = new Map([["a", "A"]]);
  const reader = new OutputReader<string>((callId) => calls.get(callId));
  const writer = new OutputWriter();
  reader.open(writer.message([{ callId: "gone" }, { callId: "a" }, { callId: "a", finishReason: "stop" }]));
  const heard: unknown[] = [];
  while (reader.next()) heard.push([reader.call, reader.callId]);
  assert.deepEqual(heard, [
    [null, "gone"],
    ["A", "a"],
    ["A", "a"],
  ]);
});

test("a column grows; what a block takes of it is as long as it was full, and lies in the block's buffer", () => {
  const column = new Column(new Int32Array(1));
  for (let i = 0; i < 5; i++) column.push(i);
  const block = new Block(8);
  const taken = block.take(column);
  assert.deepEqual([[...taken], column.count], [[0, 1, 2, 3, 4], 0]);
  column.push(9);
  const [next, floats] = [block.take(column), block.copy(Float32Array.of(0.5, 2), 2)];
  assert.deepEqual([[...next], [...floats]], [[9], [0.5, 2]]);
  for (const part of [taken, next, floats]) assert.equal(part.buffer.byteLength, 32);
});

function outputOf(callId: string, index: number, random: (n: number) => number): RequestOutput {
  const tokens = Array.from({ length: random(4) }, () => random(1000));
  const numTop = random(3);
  const logprobs = tokens.map((id) => ({
    id,
    logprob: -id / 4,
    top: Array.from({ length: numTop }, (_, i) => ({ id: i, logprob: i === 1 ? Number.NEGATIVE_INFINITY : -0.5 })),
  }));
  const hasLogprobs = tokens.length > 0 && random(3) === 0;
  const finishReason = random(9) === 0 ? "stop" : null;
  return {
    ...{ callId, index, tokens, logprobs: hasLogprobs ? logprobs : null, finishReason },
    stopToken: finishReason === null ? -1 : random(2) * 7 - 1,
    isLoop: finishReason !== null && random(2) === 0,
    promptLogprobs: random(9) === 0 ? [null, { id: 1, logprob: -1, top: [] }] : null,
    vector: finishReason !== null && random(2) === 0 ? Float32Array.of(1, 2) : null,
    trace: null,
    error: finishReason !== null && random(2) === 0 ? { code: "aborted", details: {} } : null,
  };
}
