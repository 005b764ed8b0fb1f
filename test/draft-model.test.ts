// A draft model that is the model itself is right every time; short of pages it costs none; one that does not fit is refused. That none changes an
// answer is for speculation.test.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createEngine, type EngineOptions } from "../src/engine/client/engine.js";
import type { GenerateOptions } from "../src/engine/types.js";
import { ANSWERING, GUESSING } from "./support/asked.js";
import { type Kind, modelOf } from "./support/kinds.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const PROMPT = Array.from({ length: 40 }, (_, i) => 60 + ((i * i) % 11));
const tiny = writeTinyCheckpoint();
const open = (options: EngineOptions) => createEngine({ ...GUESSING, device: "reference", model: tiny, ...options });

const KINDS: readonly Kind[] = ["full attention", "windows beside full attention", "latent", "mixture"];
for (const [device, reason] of ANSWERING) {
  for (const kind of KINDS) {
    test(`${kind} on ${device}: the model itself is always right`, { skip: reason }, async () => {
      const model = modelOf(kind);
      await using engine = await open({ model, device, draftModel: model });
      for (const temperature of [0, 0.9]) {
        await engine.generate(PROMPT, { maxTokens: 24, temperature, seed: 3, ignoreEos: true }).result();
        const { draftTokens, acceptedTokens } = (await engine.stats()).speculation;
        assert.ok(draftTokens > 10, `${draftTokens} guesses`);
        assert.equal(acceptedTokens, draftTokens);
      }
    });
  }
}

test("text and draft model take turns as requests ask, and what was not loaded is refused", async () => {
  await using engine = await open({ draftModel: tiny });
  const ask = (speculative: GenerateOptions["speculative"]) =>
    engine.generate(PROMPT, { maxTokens: 12, temperature: 0, ...(speculative === undefined ? {} : { speculative }) });
  const drafted = await ask(undefined).result();
  assert.ok(drafted.trace.acceptedTokens > 0 && drafted.trace.acceptedTokens === drafted.trace.draftTokens);
  assert.deepEqual((await ask("ngram").result()).text, drafted.text);
  await assert.rejects(ask("mtp" as never).result(), { code: "invalid_value" });
  await using plain = await open({});
  await assert.rejects(plain.generate(PROMPT, { speculative: "draft" }).result(), { code: "invalid_value" });
});

test("short of pages, with shared prefixes and preemptions, answers are the same and no page is lost", async () => {
  await using engine = await open({ draftModel: writeTinyCheckpoint({ layers: 1, seed: 2 }), numPages: 22 });
  const ask = async (speculative: "off" | "draft") => {
    const generations = Array.from({ length: 10 }, (_, seed) => {
      const options = { maxTokens: 40 + ((3 * seed) % 31), temperature: 0.6, seed, ignoreEos: true, speculative };
      return engine.generate([...PROMPT, 70 + (seed % 3)], options).result();
    });
    return (await Promise.all(generations)).map(({ samples }) => samples);
  };
  const plain = await ask("off");
  const before = await engine.stats();
  assert.deepEqual(await ask("draft"), plain);
  const after = await engine.stats();
  assert.ok(after.preemptions > before.preemptions && after.speculation.acceptedTokens > 0);
  assert.equal(after.pagesUsed, 0, "pages leak");
});

test("a draft model of another vocabulary, or context, is refused by a code", async () => {
  await assert.rejects(open({ speculative: "draft" }), { code: "invalid_option" });
  await assert.rejects(open({ draftModel: modelOf("latent") }), { code: "draft_vocabulary" });
  const short = writeTinyCheckpoint({ layers: 1, context: 64 });
  await assert.rejects(open({ draftModel: short }), { code: "draft_unsuitable" });
  await using engine = await open({ draftModel: short, maxContext: 64 });
  assert.equal((await engine.generate([65], { maxTokens: 3, ignoreEos: true }).result()).trace.completionTokens, 3);
});
