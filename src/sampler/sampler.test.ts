import assert from "node:assert/strict";
import { test } from "node:test";
import type { RequestId } from "../core/ids.js";
import { Request } from "../core/request.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "../core/sampling.js";
import { LogitsEditor } from "./logits-editor.js";
import { logprobsOf } from "./logprobs.js";

function request(prompt: number[], generated: number[], sampling: Partial<SamplingParams>): Request {
  const made = new Request({
    id: "r" as RequestId,
    prompt,
    sampling: { ...SAMPLING_DEFAULTS, seed: 0, maxTokens: 10, ...sampling },
  });
  for (const id of generated) made.appendToken(id);
  return made;
}

test("repetition penalty divides positive and multiplies negative logits of every token seen, once", () => {
  const editor = new LogitsEditor(5);
  const logits = new Float32Array([4, -4, 2, 1, -1]);
  editor.penalize(logits, request([0, 1, 0], [4], { repetitionPenalty: 2 }));
  assert.deepEqual([...logits], [2, -8, 2, 1, -2]);
});

test("presence and frequency penalties count the answer only", () => {
  const editor = new LogitsEditor(4);
  const logits = new Float32Array([0, 0, 0, 0]);
  editor.penalize(logits, request([0, 0], [1, 2, 2], { presencePenalty: 0.5, frequencyPenalty: 0.25 }));
  assert.deepEqual([...logits], [0, -0.75, -1, 0]);
  // The editor keeps no trace of the call before.
  const fresh = new Float32Array([0, 0, 0, 0]);
  editor.penalize(fresh, request([3], [], { presencePenalty: 1 }));
  assert.deepEqual([...fresh], [0, 0, 0, 0]);
});

test("masks, bias and forbidden ids", () => {
  const editor = new LogitsEditor(40);
  const logits = new Float32Array(40).fill(1);
  editor.addBias(logits, [[3, 2.5]]);
  editor.forbid(logits, [4, 400]);
  editor.applyMask(logits, Int32Array.from([0b11000, 0b1]));
  const finite = [...logits.keys()].filter((i) => Number.isFinite(logits[i]!));
  assert.deepEqual(finite, [3, 32]);
  assert.equal(logits[3], 3.5);
});

test("logprobs are the log-softmax, alternatives best first with ties to the lower id", () => {
  const logits = new Float32Array([1, 3, 3, 2]);
  const { id, logprob, top } = logprobsOf(logits, 3, 3);
  const total = Math.log(Math.exp(1) + 2 * Math.exp(3) + Math.exp(2));
  assert.equal(id, 3);
  assert.ok(Math.abs(logprob - (2 - total)) < 1e-12);
  assert.deepEqual(
    top.map((t) => t.id),
    [1, 2, 3],
  );
  assert.deepEqual(logprobsOf(logits, 0, 0).top, []);
});
