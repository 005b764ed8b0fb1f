// Drafters that need no text: one guesses anything, one knows the answer and is right as often as it is told to be. Where flights overlap, rows
// leave the overlap and come back to it at random.

import type { Request } from "../../src/core/request.js";
import type { Drafter } from "../../src/drafter/drafter.js";
import { LookupDrafter } from "../../src/drafter/lookup-drafter.js";
import { makeRandom } from "./random.js";

export function randomDrafter(seed: number, vocab: number): Drafter {
  return oracleDrafter(seed, vocab, 0, () => undefined);
}

/** What is really guessed by, with matches of one token: the text of these tests repeats no others. */
export function lookupDrafter(seed: number): Drafter {
  const random = makeRandom(seed);
  const drafter = new LookupDrafter({ minMatch: 1, maxMatch: 8, historyTokens: 128 });
  return Object.assign(drafter, { foresees: () => random(3) > 0 });
}

/** Each guess is the answer's own token with probability `p`; `answerOf` gives the tokens of a whole answer, where it is known. */
export function oracleDrafter(
  seed: number,
  vocab: number,
  p: number,
  answerOf: (request: Request) => ArrayLike<number> | undefined,
): Drafter {
  const random = makeRandom(seed);
  return {
    propose: (request, most) => {
      const answer = answerOf(request);
      const count = random(Math.min(most, 12) + 1);
      for (let i = 0; i < count; i++) {
        const truth = random(1000) < 1000 * p ? answer?.[request.numGenerated + i] : undefined;
        request.tokens[request.numTokens + i] = truth ?? random(vocab);
      }
      return count;
    },
    foresees: () => random(3) > 0,
  };
}
