import assert from "node:assert/strict";
import { test } from "node:test";
import { type RequestOutput, sampleOutput } from "../../../test/support/outputs.js";
import { EngineDeadError } from "../../core/errors.js";
import { toWire } from "../messages.js";
import { RelayReader, textFieldsOf } from "./relay.js";

function relayOf(numSamples: number) {
  const heard: string[] = [];
  const line = { onEnd: () => heard.push("end"), onAbort: (index: number) => heard.push(`abort ${index}`) };
  const reader = new RelayReader(line, numSamples, (output, isLast) => {
    heard.push(`${"callId" in output ? output.index : output.code}${isLast ? " last" : ""}`);
  });
  const output = (index: number, more: Partial<RequestOutput> = {}) => sampleOutput({ index, ...more });
  return { heard, reader, output };
}

test("a call is over when every sample has ended, and says so before its last output goes out", () => {
  const { heard, reader, output } = relayOf(2);
  assert.equal(reader.hasBegun, false);
  reader.push(output(0));
  assert.equal(reader.hasBegun, true);
  reader.push(output(1, { finishReason: "stop" }));
  reader.push(output(0, { finishReason: "length" }));
  reader.push(output(0));
  reader.fail(new EngineDeadError("engine_dead", { reason: "late" }));
  assert.deepEqual(heard, ["0", "1", "end", "0 last"]);
});

test("a call's message has those fields of texts that the call has", () => {
  const call = { kind: "pool", prompt: [1] };
  assert.deepEqual(textFieldsOf(call as never), {});
  assert.deepEqual(textFieldsOf({ ...call, pooling: "mean" } as never), { pooling: "mean" });
  assert.deepEqual(textFieldsOf({ ...call, secondStart: 3 } as never), { secondStart: 3 });
});

test("one failed sample ends the call, and so does an error of the engine", () => {
  const failed = relayOf(2);
  const error = toWire(new Error("no"), "step_failed");
  failed.reader.push(failed.output(1, { finishReason: "error", error }));
  failed.reader.push(failed.output(0));
  assert.deepEqual(failed.heard, ["abort -1", "end", "1 last"]);
  const dead = relayOf(1);
  dead.reader.fail(new EngineDeadError("engine_dead", { reason: "it died" }));
  dead.reader.push(dead.output(0));
  assert.deepEqual(dead.heard, ["end", "abort -1", "engine_dead last"]);
});
