// Speculation changes no answer: every kind of model, on every device here, gives the same tokens and log-probabilities with guesses as without,
// whatever guesses and whatever is asked of sampling. Together, so that rows with and without guesses share steps.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createEngine } from "../src/engine/client/engine.js";
import { ANSWERING, answersBy, GUESSING } from "./support/asked.js";
import { GUESSERS, KINDS, modelOf } from "./support/kinds.js";

const MIN_MATCH = 1; // random weights repeat little else
/** Guesses of each method that come true at least: a GPU's rows leave the overlap of steps for likely ones alone. */
const ACCEPTED = { reference: 20, cpu: 20, cuda: 5 } as const;

for (const [device, reason] of ANSWERING) {
  for (const kind of KINDS) {
    test(`${kind} on ${device}: texts`, { skip: reason }, async () => {
      const speculative = { method: "off", minMatch: MIN_MATCH } as const;
      await using engine = await createEngine({ ...GUESSING, model: modelOf(kind), device, speculative });
      const plain = await answersBy(engine, "off");
      let before = 0;
      for (const method of ["ngram", "suffix", "suffix"] as const) {
        assert.deepEqual(await answersBy(engine, method), plain, method);
        const { acceptedTokens, draftTokens } = (await engine.stats()).speculation;
        assert.ok(
          acceptedTokens - before > ACCEPTED[device],
          `${method}: ${acceptedTokens - before} of ${draftTokens} accepted`,
        );
        before = acceptedTokens;
      }
      assert.equal((await engine.stats()).pagesUsed, 0, "pages leak");
    });
  }

  for (const { name, method, options } of GUESSERS) {
    test(`${name} on ${device}: ${method}`, { skip: reason }, async () => {
      await using engine = await createEngine({ ...GUESSING, ...options(), device, speculative: method });
      const plain = await answersBy(engine, "off");
      assert.equal((await engine.stats()).speculation.drafts, 0);
      assert.deepEqual(await answersBy(engine, method), plain);
      const { draftTokens } = (await engine.stats()).speculation;
      assert.ok(draftTokens > 20, `${draftTokens} guesses`);
      assert.equal((await engine.stats()).pagesUsed, 0, "pages leak");
    });
  }
}

test("guesses are tried under a grammar, too", async () => {
  await using engine = await createEngine({
    ...{ ...GUESSING, model: modelOf("full attention"), device: "reference" },
    speculative: { method: "ngram", minMatch: MIN_MATCH },
  });
  const constraint = { kind: "regex", source: "(abcdefgh){12}" } as const;
  const { samples } = await engine.generate([65, 66, 67], { constraint, temperature: 0, maxTokens: 120 }).result();
  assert.equal(samples[0]!.text, "abcdefgh".repeat(12));
  const { acceptedTokens } = (await engine.stats()).speculation;
  assert.ok(acceptedTokens > 20, `${acceptedTokens} accepted`);
});
