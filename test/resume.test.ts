// An answer that another engine began goes on as if it had never been interrupted: same tokens, same log-probabilities, same end,
// whatever was asked for. This is what lets a cluster lose a replica in the middle of a stream.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { PagodaError } from "../src/core/errors.js";
import { startEngine } from "../src/engine/client/engine.js";
import type { RelayEngine } from "../src/engine/client/relay.js";
import type { ResumedSample } from "../src/engine/messages.js";
import type { SampleOutput } from "../src/engine/outputs.js";
import type { GenerateOptions } from "../src/engine/types.js";
import { objectOf } from "./support/outputs.js";
import { until } from "./support/until.js";

let engine: RelayEngine;
before(async () => {
  engine = await startEngine({ threads: 1, numPages: 32, seed: 1 });
});
after(() => engine.close());

interface Whole {
  readonly tokens: number[];
  readonly logprobs: unknown[];
  finishReason: string | null;
  stopToken: number;
}

/** The samples of a call, by index. */
function run(
  prompt: string,
  options: GenerateOptions,
  resumed: ResumedSample | null = null,
): Promise<Map<number, Whole>> {
  const samples = new Map<number, Whole>();
  const numSamples = options.n ?? 1;
  return new Promise((resolve, reject) => {
    const deliver = (given: SampleOutput | PagodaError): void => {
      if (given instanceof PagodaError || given.note.error !== null) {
        reject(given instanceof PagodaError ? given : new Error(JSON.stringify(given.note.error)));
        return;
      }
      const output = objectOf(given);
      const sample = samples.get(output.index) ?? { tokens: [], logprobs: [], finishReason: null, stopToken: -1 };
      samples.set(output.index, sample);
      sample.tokens.push(...output.tokens);
      sample.logprobs.push(...(output.logprobs ?? []));
      sample.finishReason = output.finishReason;
      sample.stopToken = output.stopToken;
      const { queuedMs = 0, timeToFirstTokenMs = 0 } = output.trace ?? {};
      if (queuedMs > timeToFirstTokenMs)
        reject(new Error(`sample ${output.index} had a token before it was scheduled`));
      if ([...samples.values()].filter(({ finishReason }) => finishReason !== null).length === numSamples)
        resolve(samples);
    };
    const id = `${Math.random()}`;
    engine.relay(
      { kind: "generate", prompt: engine.tokenizer.encode(prompt), options: { ...options, id }, resumed },
      deliver,
    );
  });
}

const CASES: Readonly<Record<string, GenerateOptions>> = {
  greedy: { temperature: 0, maxTokens: 20 },
  "drawn, with log-probabilities": { temperature: 1, seed: 7, maxTokens: 20, logprobs: 3 },
  "three samples": { temperature: 1.2, seed: 8, maxTokens: 14, n: 3 },
  "penalties, bias, a shortest length": {
    temperature: 0.9,
    seed: 9,
    maxTokens: 24,
    minTokens: 20,
    repetitionPenalty: 1.3,
    presencePenalty: 0.8,
    frequencyPenalty: 0.4,
    logitBias: [[5, 3]],
  },
  "a grammar": { temperature: 1, seed: 10, maxTokens: 24, constraint: { kind: "regex", source: "[a-m]{12}[0-9]{8}" } },
};

for (const [name, options] of Object.entries(CASES)) {
  test(`an answer goes on where another engine left it: ${name}`, async () => {
    const prompt = "Once upon a time there was a little girl who";
    const whole = await run(prompt, options);
    for (const [index, sample] of whole) {
      for (const cut of new Set([0, 1, Math.floor(sample.tokens.length / 2), sample.tokens.length - 1])) {
        const tokens = Int32Array.from(sample.tokens.slice(0, cut));
        const rest = (await run(prompt, { ...options, n: 1 }, { index, tokens })).get(index)!;
        assert.deepEqual(rest.tokens, sample.tokens.slice(cut), `sample ${index} cut at ${cut}`);
        assert.deepEqual(rest.logprobs, sample.logprobs.slice(cut));
        assert.deepEqual([rest.finishReason, rest.stopToken], [sample.finishReason, sample.stopToken]);
      }
    }
  });
}

test("what was given must be tokens of this model and leave one to give; a call of several samples is resumed one by one", async () => {
  const resume = (options: GenerateOptions, tokens: number[]): Promise<unknown> =>
    run("Once", options, { index: 0, tokens: Int32Array.from(tokens) });
  const expected = { code: "invalid_value", message: /resumed is/ };
  assert.throws(() => engine.relay(call({ maxTokens: 2 }, [1, 2]), () => undefined), expected);
  assert.throws(() => engine.relay(call({ maxTokens: 9 }, [1 << 30]), () => undefined), expected);
  assert.throws(() => engine.relay(call({ maxTokens: 9, n: 2 }, [1]), () => undefined), expected);
  await resume({ maxTokens: 3, temperature: 0 }, [1, 2]);
});

function call(options: GenerateOptions, tokens: number[]): Parameters<RelayEngine["relay"]>[0] {
  const resumed = { index: 0, tokens: Int32Array.from(tokens) };
  return { kind: "generate", prompt: [1, 2, 3], options: { ...options, id: "refused" }, resumed };
}

test("an aborted relay ends at once, also while its grammar is compiled; followers hear what is cached", async () => {
  const source = JSON.stringify({ type: "array", items: { type: "string", maxLength: 50 }, maxItems: 20 });
  const got: unknown[] = [];
  const constraint = { kind: "json_schema", source } as const;
  const options = { maxTokens: 5, constraint, id: "aborted" };
  const abort = engine.relay({ kind: "generate", prompt: [1, 2, 3], options, resumed: null }, (x) => got.push(x));
  abort(-1);
  assert.deepEqual(
    got.map((x) => (x as PagodaError).code),
    ["aborted"],
  );
  const held = new Map<string, boolean>();
  const snapshots: boolean[] = [];
  engine.watchPrefixes(({ isSnapshot, changes }) => {
    for (let i = 0; i < changes.length; i += 3) held.set(`${changes[i + 1]} ${changes[i + 2]}`, changes[i] === 1);
    snapshots.push(isSnapshot);
  });
  const { nodes } = await engine.inspect.cache();
  assert.deepEqual(snapshots, [true]);
  assert.ok(nodes.length > 0);
  assert.equal([...held.values()].filter(Boolean).length, nodes.length);
  // More than the pool holds: pages come and go, and the follower's picture stays true.
  for (let i = 0; i < 6; i++)
    await run(`${i} ${"the cat sat on the mat and ".repeat(12)}`, { maxTokens: 2, temperature: 0 });
  const numHeld = (): number => [...held.values()].filter(Boolean).length;
  await until(async () => numHeld() === (await engine.inspect.cache()).nodes.length, "the picture is true");
  assert.ok([...held.values()].includes(false), "nothing was evicted: the test is too small");
});
