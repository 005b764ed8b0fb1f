import assert from "node:assert/strict";
import { test } from "node:test";
import { type RequestOutput, sampleOutput } from "../../../test/support/outputs.js";
import { errorFor } from "../../core/errors.js";
import { toWire } from "../messages.js";
import { EmbeddingReader } from "./call-reader.js";

function readerOf() {
  const said: string[] = [];
  const line = { onAbort: (index: number) => said.push(`abort ${index}`), onEnd: () => said.push("end") };
  const reader = new EmbeddingReader(line);
  const push = (output: Partial<RequestOutput>) => reader.push(sampleOutput(output));
  return { said, reader, push };
}

test("an embedding ends with its vector, or with what went wrong", async () => {
  const whole = readerOf();
  assert.equal(whole.reader.hasBegun, false);
  whole.push({ vector: Float32Array.of(1, 2) });
  assert.deepEqual([await whole.reader.vector, whole.said], [Float32Array.of(1, 2), ["end"]]);
  const failed = readerOf();
  const rejected = assert.rejects(failed.reader.vector, { code: "engine_dead", message: /it broke/ });
  failed.push({ error: toWire(errorFor("engine_dead", { reason: "it broke" }), "step_failed") });
  await rejected;
  assert.deepEqual(failed.said, ["end"]);
  const empty = readerOf();
  const nothing = assert.rejects(empty.reader.vector, { code: "step_failed", message: /no vector/ });
  empty.push({});
  await nothing;
});

test("one that is given up is over, and the engine is told", async () => {
  const { said, reader } = readerOf();
  const rejected = assert.rejects(reader.vector, { code: "aborted" });
  reader.fail(errorFor("aborted"));
  await rejected;
  assert.deepEqual(said, ["end", "abort -1"]);
});
