import assert from "node:assert/strict";
import { test } from "node:test";
import { StepWorth } from "./step-worth.js";

/** Guesses that a step of so many rows tries, each right with this probability, when each costs so many tokens of the step. */
function numGuesses(rows: number, probability: number, cost: number, stepTokens = 8): number {
  const worth = new StepWorth();
  worth.begin(rows, stepTokens);
  let chance = probability;
  let count = 0;
  while (count < 15 && worth.pays(chance, cost)) {
    worth.add(chance, cost);
    chance *= probability;
    count++;
  }
  return count;
}

test("likelier guesses are longer, fuller batches and dearer guesses shorter", () => {
  assert.ok(numGuesses(1, 0.9, 1) > numGuesses(1, 0.6, 1));
  assert.ok(numGuesses(1, 0.9, 1) > numGuesses(64, 0.9, 1));
  assert.ok(numGuesses(1, 0.9, 1) > numGuesses(1, 0.9, 3));
  assert.ok(numGuesses(1, 0.9, 3) > 0);
  assert.equal(numGuesses(1, 0.9, 9), 0, "as long as the step itself");
});

test("a time is so many tokens where a token's is known", () => {
  const worth = new StepWorth();
  worth.begin(1, 8, 0.5);
  assert.equal(worth.tokensIn(2), 4);
  worth.begin(1, 8);
  assert.equal(worth.tokensIn(2), 0);
});
