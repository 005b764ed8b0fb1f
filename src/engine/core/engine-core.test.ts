// What a core answers, output by output, and what it leaves behind.

import assert from "node:assert/strict";
import { test } from "node:test";
import { RecordedCore, RecordingDevice } from "../../../test/support/recorded-core.js";
import { AttentionPlanner } from "../../attention/planner.js";
import type { ConstraintCompiler, TokenConstraint } from "../../grammar/constraint.js";
import { OutputReader } from "../outputs.js";

function aheadCore(): RecordedCore {
  const device = new RecordingDevice();
  device.info = { ...device.info, asyncDepth: 2 };
  return new RecordedCore({ device });
}

test("an answer ends at its limit, at a stop token that may come, or with the context", () => {
  const engine = new RecordedCore({ eosIds: [20], maxContext: 12 });
  engine.add("limit", 2, { maxTokens: 2 });
  engine.add("eos", [18], { maxTokens: 9 });
  engine.add("ignored", [18], { maxTokens: 3, ignoreEos: true });
  engine.add("own", [18], { maxTokens: 9, stopTokenIds: [30, 19] });
  engine.add("least", [18], { maxTokens: 9, minTokens: 2, stopTokenIds: [19] });
  engine.drain();
  assert.deepEqual(
    engine.answers().toSorted(),
    [
      ...["limit#0 3", "limit#0 4 length", "eos#0 19", "eos#0 20 stop at 20", "own#0 19 stop at 19"],
      ...["ignored#0 19", "ignored#0 20", "ignored#0 21 length"],
      // 19 and 20 are forbidden for two tokens: the first of all others comes, then what follows it.
      ...["least#0 0", "least#0 1", "least#0 2", "least#0 3", "least#0 4", "least#0 5", "least#0 6"],
      ...["least#0 7", "least#0 8 length"],
    ].toSorted(),
  );
  engine.add("context", 10, { maxTokens: 9 });
  engine.drain();
  assert.deepEqual(engine.answers(), ["context#0 11", "context#0 12 length"]);
  assert.equal(engine.core.hasWork, false);
});

test("the trace of an answer: what it took, and when", () => {
  const engine = new RecordedCore();
  engine.now = 905;
  engine.add("a", 10, { maxTokens: 3 });
  engine.drain(); // 915, 925, 935, 945
  const outputs = engine.outputs();
  assert.deepEqual(outputs[0], {
    ...{ callId: "a", index: 0, tokens: [11], logprobs: null, finishReason: null, stopToken: -1, isLoop: false },
    ...{ promptLogprobs: null, vector: null, trace: null, error: null },
  });
  assert.deepEqual(
    outputs.map(({ trace }) => trace),
    [
      null,
      null,
      {
        ...{ promptTokens: 10, completionTokens: 3, cachedTokens: 0, chunks: 2, steps: 4, preemptions: 0 },
        ...{ drafts: 0, draftTokens: 0, acceptedTokens: 0 },
        ...{ acceptedMs: 5, queuedMs: 15, timeToFirstTokenMs: 25, totalMs: 45, tokensPerSecond: 100 },
      },
    ],
  );
  assert.deepEqual(engine.core.takeOutputs(), null);
  engine.add("v", 3, {}, { kind: "pool", arrivalMs: engine.now });
  engine.step();
  const [vector] = engine.outputs();
  const { timeToFirstTokenMs, totalMs, completionTokens } = vector!.trace!;
  assert.deepEqual(
    [timeToFirstTokenMs, totalMs, completionTokens, vector!.finishReason, vector!.index],
    [10, 10, 0, "stop", 0],
  );
});

test("what cannot begin fails at once, as the call's first sample", () => {
  const engine = new RecordedCore();
  engine.add("a", 2, { n: 2 }, { constraint: { kind: "json", source: "" } });
  engine.add("b", [], {});
  assert.equal(engine.core.hasWork, false);
  const [a, b] = engine.outputs();
  assert.deepEqual([a!.callId, a!.index, a!.finishReason, a!.error!.code], ["a", 0, "error", "step_failed"]);
  assert.match(String(a!.error!.details.reason), /needs a tokenizer/);
  assert.deepEqual([b!.callId, b!.index, b!.error!.code], ["b", 0, "empty_prompt"]);
});

test("a prompt without an answer: every sample of the call ends with it, the first with its scores", () => {
  const engine = new RecordedCore();
  engine.add("a", 9, { maxTokens: 0, n: 3, promptLogprobs: 0 });
  engine.step();
  assert.deepEqual(engine.outputs(), [], "a chunk in the middle says nothing");
  engine.step();
  assert.deepEqual(
    engine
      .outputs()
      .map(({ index, tokens, finishReason, promptLogprobs, trace }) => [
        ...[index, tokens, finishReason, promptLogprobs?.length ?? null, trace!.promptTokens],
      ]),
    [
      [0, [], "length", 9, 9],
      [1, [], "length", null, 9],
      [2, [], "length", null, 9],
    ],
  );
  assert.equal(engine.core.hasWork, false);
});

test("further samples share the prompt's pages: none is copied that is whole, and without a free one they wait", () => {
  const whole = new RecordedCore();
  whole.add("a", 4, { n: 2 });
  assert.ok(!whole.drain().some((line) => line.startsWith("copy")));
  assert.deepEqual(whole.answers().toSorted(), ["a#0 5", "a#0 6 length", "a#1 5", "a#1 6 length"]);
  const full = new RecordedCore({ pages: 1 });
  full.add("a", 2, { n: 2 });
  assert.equal(full.core.step(), true);
  full.drain();
  assert.deepEqual(full.answers().toSorted(), ["a#0 3", "a#0 4 length", "a#1 3", "a#1 4 length"]);
});

test("scores that are computed again after a preemption are not told twice", () => {
  const engine = new RecordedCore({ pages: 6 });
  engine.add("first", 8, { maxTokens: 12 });
  engine.step();
  engine.add("second", 4, { maxTokens: 9, promptLogprobs: 0, logprobs: 0 }, { priority: 1 });
  engine.drain();
  const outputs = engine.outputs().filter(({ callId }) => callId === "second");
  assert.ok(outputs.at(-1)!.trace!.preemptions > 0, "it was preempted");
  assert.deepEqual(
    outputs.flatMap(({ tokens }) => tokens),
    [5, 6, 7, 8, 9, 10, 11, 12, 13],
  );
  assert.deepEqual(
    outputs.map(({ promptLogprobs }) => promptLogprobs?.map((entry) => entry?.id)),
    [[undefined, 2, 3, 4], ...Array(8).fill(undefined)],
  );
  assert.ok(engine.core.stats().preemptions > 0);
});

test("abort ends one sample or all of a call, and no other; who is over already hears nothing", () => {
  const engine = new RecordedCore();
  engine.add("a", 1, { n: 3, maxTokens: 30 });
  engine.add("b", 1, { maxTokens: 30 });
  engine.step();
  engine.outputs();
  engine.core.abort("a", 1);
  assert.deepEqual(engine.answers(), ["a#1  abort"]);
  engine.core.abort("a", 1);
  engine.core.abort("nobody", -1);
  assert.deepEqual(engine.answers(), []);
  engine.step();
  assert.deepEqual(engine.answers().toSorted(), ["a#0 3", "a#2 3", "b#0 3"]);
  engine.core.abort("a", 0);
  assert.deepEqual(engine.answers(), ["a#0  abort"]);
  engine.core.abort("a", -1);
  const aborted = engine.outputs();
  assert.deepEqual(
    aborted.map(({ callId, index, finishReason, trace }) => [callId, index, finishReason, trace!.completionTokens]),
    [["a", 2, "abort", 2]],
  );
  engine.core.abort("b", 0);
  assert.deepEqual([engine.answers(), engine.core.hasWork], [["b#0  abort"], false]);
  assert.deepEqual([engine.core.stats().requestsFinished, engine.core.stats().pagesUsed], [4, 0]);
});

test("a flight that fails ends its rows and no others, also where the next one is in flight", () => {
  const engine = aheadCore();
  engine.add("a", 2, { maxTokens: 9 });
  engine.step();
  engine.core.injectFault();
  engine.add("b", 2, { maxTokens: 1 });
  engine.step();
  assert.deepEqual([engine.core.numInFlight, engine.core.hasWork], [0, false]);
  assert.deepEqual(engine.answers(), ["a#0 3", "a#0  error (injected fault)", "b#0  error (injected fault)"]);
  engine.add("c", 2, { maxTokens: 1 });
  engine.drain();
  assert.deepEqual(engine.answers(), ["c#0 3 length"], "once is once");
  assert.equal(engine.core.stats().pagesUsed, 0);
  const alone = new RecordedCore();
  alone.core.injectFault();
  for (const id of ["a", "b"]) {
    alone.add(id, 2, { maxTokens: 1 });
    alone.drain();
  }
  assert.deepEqual(alone.answers(), ["a#0  error (injected fault)", "b#0 3 length"]);
  alone.device.waitFor = () => {
    throw new Error("it was lost");
  };
  alone.add("c", 2);
  alone.drain();
  assert.deepEqual([alone.answers(), alone.core.stats().pagesUsed], [["c#0  error (it was lost)"], 0]);
});

test("a token computed after an answer's end is dropped, and counted", () => {
  const engine = aheadCore();
  engine.add("a", [18], { maxTokens: 9, stopTokenIds: [19] });
  engine.drain();
  assert.deepEqual([engine.answers(), engine.core.recorder.numDropped], [["a#0 19 stop at 19"], 1]);
  const plain = new RecordedCore();
  plain.add("a", [18], { maxTokens: 9, stopTokenIds: [19] });
  plain.drain();
  assert.equal(plain.core.recorder.numDropped, 0);
});

test("a step names its rows, also one that ended while the step was in flight", () => {
  const engine = aheadCore();
  const reader = new OutputReader<string>((callId) => callId);
  const names: string[][] = [];
  const step = () => {
    engine.step();
    const message = engine.core.takeOutputs();
    if (message === null) return;
    reader.open(message);
    if (message.step !== null) names.push(reader.recordOf(message.step).rows.map(({ id }) => id));
  };
  engine.add("a", [18], { maxTokens: 9, stopTokenIds: [19] });
  step();
  step();
  engine.add("b", [1], { maxTokens: 2 });
  while (engine.core.hasWork) step();
  engine.add("c", [1], { maxTokens: 1 });
  while (engine.core.hasWork) step();
  assert.deepEqual(names, [["a"], ["a"], ["b"], ["b"], ["c"]]);
});

test("a constraint is asked and told token by token, ends the answer, and is let go", () => {
  const log: string[] = [];
  const constraintOf = (name: string, accepted = 0): TokenConstraint => {
    let left = 2 - accepted;
    return {
      isReady: () => true,
      fillMask: (mask) => {
        log.push(`${name}?`);
        mask.fill(0)[0] = 0b110000; // 4 or 5
        return true;
      },
      accept: (token) => {
        log.push(`${name}=${token}`);
        left--;
        return name !== "refuses";
      },
      isDone: () => left <= 0,
      fork: () => constraintOf(`${name}'`),
      dispose: () => log.push(`${name} gone`),
    };
  };
  const compiler: ConstraintCompiler = {
    ...{ ready: async () => {}, warm: () => {}, settle: () => log.push("settle"), close: () => log.push("close") },
    compile: ({ source }, accepted) => constraintOf(source, accepted?.length),
  };
  const engine = new RecordedCore({ compiler, eosIds: [5] });
  const constraint = { kind: "json", source: "c" } as const;
  engine.add("a", [3], { maxTokens: 9, n: 2 }, { constraint });
  engine.step();
  assert.deepEqual(log.splice(0), ["settle", "c?", "c'=4", "c=4"]);
  engine.step();
  assert.deepEqual(log.splice(0), ["settle", "c?", "c'?", "c gone", "c' gone"], "5 is a stop token, and no part of it");
  assert.deepEqual(engine.answers(), ["a#1 4", "a#0 4", "a#0 5 stop at 5", "a#1 5 stop at 5"]);

  engine.add("b", [3], { maxTokens: 9 }, { constraint: { kind: "json", source: "refuses" } });
  engine.drain();
  assert.deepEqual(engine.answers(), ["b#0  error (the constraint refuses the chosen token 4)"]);
  engine.add(
    "r",
    [3],
    { maxTokens: 9, ignoreEos: true },
    { constraint, resumed: { index: 3, tokens: Int32Array.of(4) } },
  );
  engine.drain();
  assert.deepEqual(engine.answers(), ["r#3 5 stop"], "it is done with the second of its tokens");
  engine.add("d", [3], { maxTokens: 9 }, { constraint });
  log.length = 0;
  engine.core.close();
  assert.deepEqual([log, engine.core.hasWork], [["c gone", "close"], false]);
});

test("what needs more pages than there are is ended by the scheduler: an answer is cut, a prompt fails", () => {
  const engine = new RecordedCore({ pages: 2 });
  engine.add("a", 3, { maxTokens: 40 });
  engine.drain();
  assert.deepEqual(engine.answers(), [..."45678"].map((token) => `a#0 ${token}`).concat("a#0 9", "a#0  length"));
  engine.add("b", 9, { maxTokens: 1 });
  engine.drain();
  assert.deepEqual(engine.answers(), ["b#0  error (it needs more pages than the pool has)"]);
  assert.deepEqual([engine.core.hasWork, engine.core.stats().requestsFinished], [false, 2]);
});

test("stop ends all that is served and lands what is in flight", () => {
  const engine = aheadCore();
  engine.add("a", 2, { maxTokens: 30, n: 2 });
  engine.add("b", 2, { maxTokens: 30 });
  engine.step();
  assert.equal(engine.core.numInFlight, 1);
  engine.core.stop();
  engine.core.commit();
  assert.deepEqual([engine.core.numInFlight, engine.core.hasWork, engine.core.step()], [0, false, false]);
  assert.deepEqual(engine.answers(), ["a#0  abort", "b#0  abort"]);
  assert.equal(engine.core.stats().pagesUsed, 0);
});

test("the cache's picture names the pages of each request, those of flights under way too", () => {
  const engine = aheadCore();
  engine.add("a", 10, { maxTokens: 9 });
  engine.step();
  const pictured = () => engine.core.cacheSnapshot().requests;
  assert.deepEqual(pictured(), [{ id: "a", tables: [[1, 2, 3]] }]);
  engine.core.abort("a", -1);
  assert.deepEqual(pictured(), [{ id: "a", tables: [[1, 2, 3]] }], "they are written to yet");
  const checked: string[][] = [];
  engine.cache.checkIntegrity = (owners) => checked.push([...owners].map(({ id }) => id));
  engine.core.checkIntegrity();
  assert.deepEqual(checked, [["a"]]);
  engine.step();
  assert.deepEqual(pictured(), []);
  let isClosed = false;
  engine.device.close = () => {
    isClosed = true;
  };
  engine.core.close();
  assert.ok(isClosed);
});

test("a call waits for its constraint's next mask and holds up nobody", () => {
  let isReady = false;
  const constraint: TokenConstraint = {
    ...{ isReady: () => isReady, fillMask: () => false, accept: () => true, isDone: () => false, dispose: () => {} },
    fork: () => constraint,
  };
  const compiler = { ready: async () => {}, compile: () => constraint, warm() {}, settle() {}, close() {} };
  const engine = new RecordedCore({ compiler });
  engine.add("a", 1, { maxTokens: 2 }, { constraint: { kind: "json", source: "" } });
  engine.add("b", 1, { maxTokens: 1 });
  engine.step();
  assert.deepEqual(engine.answers(), ["b#0 2 length"]);
  assert.equal(engine.core.step(), false, "nothing can run");
  isReady = true;
  engine.drain();
  assert.deepEqual(engine.answers(), ["a#0 2", "a#0 3 length"]);
});

test("a row under a grammar is in every flight: it draws when its mask is there, and computes its token once more where it is not", () => {
  let isReady = true;
  const constraint: TokenConstraint = {
    ...{ isReady: () => isReady, isQuick: () => true, fillMask: () => assert.ok(isReady) !== undefined },
    ...{ accept: () => true, isDone: () => false, dispose: () => {}, fork: () => constraint },
  };
  const device = new RecordingDevice();
  device.info = { ...device.info, asyncDepth: 2 };
  const compiler = { ready: async () => {}, compile: () => constraint, warm() {}, settle() {}, close() {} };
  const engine = new RecordedCore({ device, compiler });
  engine.add("a", 1, { maxTokens: 4 }, { constraint: { kind: "json", source: "" } });
  engine.add("b", 1, { maxTokens: 6 });
  const both = "sample 0: 0 1";
  assert.deepEqual(engine.step(), ["stage 0:[1] 1; 0:[1] 2 -> 0,1", "forward", "logits 0+2", both]);
  assert.deepEqual(engine.step(), ["stage 1:[-1] 1; 1:[-2] 2 -> 0,1 after another", "forward", "start", "land"]);
  const drawn = ["logits 0+2", both];
  const next = ["stage 2:[-1] 1; 2:[-2] 2 -> 0,1 after another", "forward", "start", "land"];
  assert.deepEqual(engine.step(), [...drawn, ...next]);
  isReady = false;
  const alone = "stage 3:[-2] 2 -> 0 after another";
  assert.deepEqual(engine.step(), [...drawn, alone, "forward", "logits 0+1", "sample 0: 0", "land"]);
  assert.deepEqual(engine.answers(), ["a#0 2", "b#0 2", "a#0 3", "b#0 3", "b#0 4"]);
  isReady = true;
  const again = "stage 2:[3] 1; 4:[-1] 2,3 -> 0,1 after another";
  assert.deepEqual(engine.step(), [again, "forward", "logits 0+2", both, "land"]);
  engine.drain();
  assert.deepEqual(engine.answers(), ["b#0 5", "a#0 4", "b#0 6", "a#0 5 length", "b#0 7 length"]);
  assert.equal(engine.core.stats().pagesUsed, 0);
});

test("vectors go through the layers of their kind", () => {
  const times = (factor: number) => (vector: Float32Array) => vector.map((x) => factor * x);
  const engine = new RecordedCore({ layers: { embed: times(10), score: times(100) } });
  for (const kind of ["pool", "embed", "score"] as const) engine.add(kind, 2, {}, { kind });
  engine.drain();
  assert.deepEqual(
    engine.outputs().map(({ callId, vector }) => [callId, ...vector!]),
    [
      ["pool", 2, 1],
      ["embed", 20, 10],
      ["score", 200, 100],
    ],
  );
});

test("each of the model's plans is made for the batch, and a past step's again", () => {
  const planners = [0, 4].map(
    (window) =>
      new AttentionPlanner({ ...{ group: 0, groupSize: 1, window, attentionChunk: 0, split: "fixed" }, ...SIZES }),
  );
  const seen: number[][] = [];
  const device = new (class extends RecordingDevice {
    override stage(...args: Parameters<RecordingDevice["stage"]>): void {
      seen.push(args[2].map(({ window }) => window));
      super.stage(...args);
    }
  })();
  const engine = new RecordedCore({ device, planners });
  engine.add("a", 6, { maxTokens: 1 });
  engine.drain();
  assert.deepEqual(seen, [[0, 4]]);
  const rows = [{ id: "a", start: 0, queryLen: 6, contextLen: 6, isPrefill: true }];
  assert.deepEqual(
    engine.core.planOf(rows).map(({ window, items }) => [window, items[0]!.kvEnd]),
    [
      [0, 6],
      [4, 6],
    ],
  );
  const long = [{ id: "a", start: 0, queryLen: 300, contextLen: 300, isPrefill: true }];
  const firstEnd = ({ core }: RecordedCore) =>
    Math.max(...core.planOf(long)[0]!.items.flatMap(({ qStart, kvEnd }) => (qStart === 0 ? [kvEnd] : [])));
  const both = new RecordedCore({ planners, isBidirectional: true });
  assert.ok(firstEnd(engine) < 300 && firstEnd(both) === 300, "tokens that see each other");
});

const SIZES = { numKvHeads: 1, headDim: 1, kvDtype: "f32", numWorkers: 1, kvChunk: 64 } as const;
