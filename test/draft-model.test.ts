// Guesses with weights change no answer: a draft model gives the same tokens and log-probabilities as none, whatever is asked of sampling. One that is
// the model itself is right every time.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { createEngine, type EngineOptions } from "../src/engine/client/engine.js";
import type { Engine, GenerateOptions } from "../src/engine/types.js";
import { openCpu } from "./support/cpu.js";
import { withByteTokenizer, writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

/** Of guessed steps in rounds of random traffic; one round is what CI has. `FUZZ_STEPS=100000 node scripts/run-tests.mjs draft-model` */
const numSteps = Number(process.env.FUZZ_STEPS ?? 0);
const GOLDENS = "../shared/goldens";
const VOCAB = 320;
const cpu = await openCpu();
cpu.device?.close();

const tiny = writeTinyCheckpoint();
const golden = (name: string): string | null =>
  existsSync(`${GOLDENS}/${name}`) ? withByteTokenizer(`${GOLDENS}/${name}`, VOCAB) : null;

/** [what it shows, the model, the draft model] */
const PAIRS: readonly (readonly [string, string | null, string | null])[] = [
  ["the model itself", tiny, tiny],
  ["another model", tiny, writeTinyCheckpoint({ layers: 1 })],
  ["windows, itself", golden("gemma3"), golden("gemma3")],
  ["latent, guessed by windows", golden("deepseek-v3"), golden("gemma3")],
  ["mixture, itself", golden("mixtral"), golden("mixtral")],
];

for (const [name, model, draftModel] of PAIRS) {
  for (const device of ["reference", "cpu"] as const) {
    const reason = model === null || draftModel === null ? `${GOLDENS} is not here` : cpu.reason;
    const isHere = model !== null && draftModel !== null && (device === "reference" || cpu.device !== null);
    test(`${name} on ${device}`, isHere ? {} : { skip: reason }, async () => {
      const options: EngineOptions = { ...BASE, model: model!, device, draftModel: draftModel!, speculative: "draft" };
      await using engine = await createEngine(options);
      const plain = await answers(engine, "off");
      const before = (await engine.stats()).speculation;
      assert.equal(before.drafts, 0);
      assert.deepEqual(await answers(engine, "draft"), plain);
      const { draftTokens, acceptedTokens } = (await engine.stats()).speculation;
      assert.ok(draftTokens > 20, `${draftTokens} guesses`);
      if (model === draftModel) {
        await engine.generate(PROMPT, { maxTokens: 24, temperature: 0.9, seed: 3, ignoreEos: true }).result();
        const alone = (await engine.stats()).speculation;
        assert.ok(alone.draftTokens > draftTokens);
        assert.equal(alone.acceptedTokens - acceptedTokens, alone.draftTokens - draftTokens, "all are right");
      }
      assert.equal((await engine.stats()).pagesUsed, 0, "pages leak");
    });
  }
}

test("text and draft model take turns as requests ask, and what was not loaded is refused", async () => {
  await using engine = await createEngine({ ...BASE, model: tiny, device: "reference", draftModel: tiny });
  const ask = (speculative: GenerateOptions["speculative"]) =>
    engine.generate(PROMPT, { maxTokens: 12, temperature: 0, ...(speculative === undefined ? {} : { speculative }) });
  const drafted = await ask(undefined).result();
  assert.ok(drafted.trace.acceptedTokens > 0 && drafted.trace.acceptedTokens === drafted.trace.draftTokens);
  assert.deepEqual((await ask("ngram").result()).text, drafted.text);
  await assert.rejects(ask("mtp" as never).result(), { code: "invalid_value" });
  await using plain = await createEngine({ ...BASE, model: tiny, device: "reference" });
  await assert.rejects(plain.generate(PROMPT, { speculative: "draft" }).result(), { code: "invalid_value" });
});

test("short of pages, with shared prefixes and preemptions, answers are the same and no page is lost", async () => {
  const draftModel = writeTinyCheckpoint({ layers: 1, seed: 2 });
  await using engine = await createEngine({ ...BASE, model: tiny, device: "reference", draftModel, numPages: 22 });
  const ask = async (speculative: "off" | "draft", round: number) => {
    const generations = Array.from({ length: 10 }, (_, i) => {
      const seed = 10 * round + i;
      const options = { maxTokens: 40 + ((3 * seed) % 31), temperature: 0.6, seed, ignoreEos: true, speculative };
      return engine.generate([...PROMPT, 70 + (seed % 3)], options).result();
    });
    return (await Promise.all(generations)).map(({ samples }) => samples);
  };
  for (let round = 0, steps = 0; round === 0 || steps < numSteps; round++) {
    const plain = await ask("off", round);
    const before = await engine.stats();
    assert.deepEqual(await ask("draft", round), plain, `round ${round}`);
    const after = await engine.stats();
    assert.ok(after.preemptions > before.preemptions && after.speculation.acceptedTokens > 0);
    assert.equal(after.pagesUsed, 0, "pages leak");
    steps += after.steps - before.steps;
  }
});

test("a draft model of another vocabulary, or context, is refused by a code", async () => {
  const open = (options: EngineOptions) => createEngine({ ...BASE, device: "reference", model: tiny, ...options });
  await assert.rejects(open({ speculative: "draft" }), { code: "invalid_option" });
  const other = golden("gemma3");
  if (other !== null) await assert.rejects(open({ draftModel: other }), { code: "draft_vocabulary" });
  const short = writeTinyCheckpoint({ layers: 1, context: 64 });
  await assert.rejects(open({ draftModel: short }), { code: "draft_unsuitable" });
  await using engine = await open({ draftModel: short, maxContext: 64 });
  assert.equal((await engine.generate([65], { maxTokens: 3, ignoreEos: true }).result()).trace.completionTokens, 3);
});

const BASE: EngineOptions = { worker: false, numPages: 300, threads: 2, targetStepMs: 0 };
const PROMPT = Array.from({ length: 40 }, (_, i) => 60 + ((i * i) % 11));

/** Everything that a caller can see of a set of answers, asked for at once. */
async function answers(engine: Engine, method: "off" | "draft"): Promise<unknown[]> {
  const base: GenerateOptions = { maxTokens: 24, temperature: 0, ignoreEos: true, logprobs: 2 };
  const asked: GenerateOptions[] = [
    base,
    { ...base, temperature: 0.7, topK: 3 },
    { ...base, temperature: 1.2, topP: 0.9, n: 3 },
    { ...base, temperature: 0.5, repetitionPenalty: 1.2, frequencyPenalty: 0.3, minTokens: 9 },
    { ...base, promptLogprobs: 1, maxTokens: 9 },
    { ...base, stop: ["A", "zz"], logitBias: [[65, 4]] },
    { ...base, constraint: { kind: "regex", source: "(ab|cd){4,12}" } },
  ];
  const results = await Promise.all(
    asked.map((options, i) => {
      const ids = [...PROMPT, 70 + i, ...PROMPT.slice(0, 12 + i)];
      return engine.generate(ids, { ...options, seed: i, speculative: method }).result();
    }),
  );
  return results.map(({ samples, promptLogprobs }) => ({ samples, promptLogprobs }));
}
