import assert from "node:assert/strict";
import { test } from "node:test";
import { type RequestOutput, sampleOutput } from "../../../test/support/outputs.js";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { StreamDetokenizer } from "../../tokenizer/stream-detokenizer.js";
import { openCheckpoint } from "../checkpoint.js";
import { toWire } from "../messages.js";
import type { OutputChunk, RequestTrace } from "../types.js";
import { TextGeneration } from "./generation.js";

const tokenizer = openCheckpoint(writeTinyCheckpoint()).tokenizer!;

function generationOf(n: number, stop: readonly string[] = []) {
  const said: string[] = [];
  const generation = new TextGeneration({
    ...{ id: "call", n, wantsLogprobs: true, makeDetokenizer: () => new StreamDetokenizer(tokenizer, { stop }) },
    ...{ onAbort: (index: number) => said.push(`abort ${index}`), onEnd: () => said.push("end") },
  });
  const push = (index: number, text: string, more: Partial<RequestOutput> = {}) => {
    const tokens = tokenizer.encode(text, { addSpecialTokens: false });
    const logprobs = tokens.map((id) => ({ id, logprob: -1, top: [] }));
    generation.push(sampleOutput({ callId: "call", index, tokens, logprobs, ...more }));
  };
  return { generation, said, push };
}

const guesses = { drafts: 1, draftTokens: 4, acceptedTokens: 2 };
const trace = { promptTokens: 3, completionTokens: 1, ...guesses } as RequestTrace;

async function read(generation: TextGeneration): Promise<OutputChunk[]> {
  const chunks: OutputChunk[] = [];
  for await (const chunk of generation) chunks.push(chunk);
  return chunks;
}

test("what nobody has taken is joined, sample by sample, and the last chunk of each says how it ended", async () => {
  const { generation, said, push } = generationOf(2);
  assert.equal(generation.hasBegun, false);
  push(1, "x");
  assert.equal(generation.hasBegun, true);
  push(0, "ab");
  push(0, "c");
  push(1, "y", { finishReason: "length", trace });
  push(1, "z");
  assert.deepEqual(said, []);
  push(0, "", { finishReason: "stop", stopToken: 0, tokens: [0], trace: { ...trace, steps: 7 } });
  push(0, "late");
  assert.deepEqual(said, ["end"]);
  const chunks = await read(generation);
  assert.deepEqual(
    chunks.map(({ index, text, tokenIds, logprobs, finishReason, stopReason }) => [
      ...[index, text, tokenIds.length, logprobs!.length, finishReason, stopReason],
    ]),
    [
      [0, "abc", 4, 3, "stop", 0],
      [1, "xy", 2, 2, "length", null],
    ],
  );
  assert.deepEqual(
    chunks.map(({ guessed }) => guessed),
    [[[0, 1]], []],
    "two tokens of one step: the first was guessed",
  );
  const result = await generation.result();
  assert.equal(result.text, "abc");
  assert.deepEqual(
    result.samples.map(({ index, text, tokenIds, finishReason, stopReason }) => [
      ...[index, text, tokenIds.length, finishReason, stopReason],
    ]),
    [
      [0, "abc", 4, "stop", 0],
      [1, "xy", 2, "length", null],
    ],
  );
  assert.equal(result.id, "call");
  const both = { drafts: 2, draftTokens: 8, acceptedTokens: 4 };
  const rest = { promptTokens: 3, steps: 7, completionTokens: 6 };
  assert.deepEqual(result.trace, { ...rest, ...both }, "the first sample's, with the guesses of both");
});

test("a reader that waits gets each piece as it comes, and the end without text", async () => {
  const { generation, push } = generationOf(1);
  const reading = generation[Symbol.asyncIterator]();
  for (const text of ["a", "b"]) {
    const next = reading.next();
    push(0, text);
    const { value } = await next;
    assert.deepEqual([value.text, value.tokenIds.length, value.finishReason, value.stopReason], [text, 1, null, null]);
  }
  const next = reading.next();
  push(0, "", { tokens: [], logprobs: [], finishReason: "length", trace });
  const { value } = await next;
  assert.deepEqual([value.text, value.tokenIds, value.logprobs, value.finishReason], ["", [], [], "length"]);
  assert.equal((await reading.next()).done, true);
});

test("the prompt's log-probabilities come with the first chunk, once, and with the result", async () => {
  const { generation, push } = generationOf(1);
  const promptLogprobs = [null, { id: 3, logprob: -2, top: [] }];
  const reading = generation[Symbol.asyncIterator]();
  const next = async () => (await reading.next()).value;
  push(0, "a", { promptLogprobs });
  assert.deepEqual((await next()).promptLogprobs, promptLogprobs);
  push(0, "b");
  assert.equal((await next()).promptLogprobs, null);
  push(0, "c", { finishReason: "length", trace });
  assert.equal((await next()).promptLogprobs, null);
  assert.deepEqual((await generation.result()).promptLogprobs, promptLogprobs);
  const late = generationOf(2);
  late.push(1, "x");
  const chunks = late.generation[Symbol.asyncIterator]();
  assert.equal((await chunks.next()).value.promptLogprobs, null);
  late.push(0, "a", { promptLogprobs });
  assert.deepEqual((await chunks.next()).value.promptLogprobs, promptLogprobs);
  late.generation.abort();
});

test("a stop string ends its sample alone: the engine is told, and what it sends until it has stopped is dropped", async () => {
  const { generation, said, push } = generationOf(2, ["##"]);
  push(1, "ab##cd");
  push(1, "more");
  assert.deepEqual(said, ["abort 1", "abort 1"]);
  push(1, "", { tokens: [], logprobs: [], finishReason: "abort", trace });
  push(0, "a#", { finishReason: "length", trace });
  assert.deepEqual(said, ["abort 1", "abort 1", "end"]);
  const { samples } = await generation.result();
  assert.deepEqual(
    samples.map(({ text, tokenIds, finishReason, stopReason }) => [text, tokenIds.length, finishReason, stopReason]),
    [
      ["a#", 2, "length", null],
      ["ab", 4, "stop", "##"],
    ],
  );
});

test("an error ends the call for its readers, once; leaving early is an abort", async () => {
  const failed = generationOf(1);
  failed.push(0, "a");
  failed.push(0, "", { error: toWire(new Error("no"), "step_failed"), finishReason: "error" });
  failed.generation.abort();
  assert.deepEqual(failed.said, ["abort -1", "end"]);
  const heard: string[] = [];
  await assert.rejects(
    async () => {
      for await (const { text, finishReason } of failed.generation) heard.push(`${text} ${finishReason}`);
    },
    { code: "step_failed" },
  );
  assert.deepEqual(heard, ["a null"]);
  await assert.rejects(failed.generation.result(), { code: "step_failed" });
  const left = generationOf(1);
  left.push(0, "a");
  for await (const _ of left.generation) break;
  assert.deepEqual(left.said, ["abort -1", "end"]);
  await assert.rejects(left.generation.result(), { code: "aborted" });
});

test("a token without text of its own is no chunk, unless its log-probability is wanted", async () => {
  const [first, second] = tokenizer.encode("é", { addSpecialTokens: false }) as [number, number];
  const logprobs = [{ id: first, logprob: -1, top: [] }];
  const { generation, push } = generationOf(1);
  const reading = generation[Symbol.asyncIterator]();
  push(0, "", { tokens: [first], logprobs });
  const { value } = await reading.next();
  assert.deepEqual([value.text, value.tokenIds, value.logprobs], ["", [first], logprobs]);
  const silent = generationOf(1);
  const next = silent.generation[Symbol.asyncIterator]().next();
  silent.push(0, "", { tokens: [first], logprobs: null });
  await new Promise((resolve) => setImmediate(resolve)); // the reader has looked, and waits on
  silent.push(0, "", { tokens: [second], logprobs: null });
  const chunk = (await next).value;
  assert.deepEqual([chunk.text, chunk.tokenIds], ["é", [first, second]]);
});
