// How likely the next guess of a request is right: counted for matches of like length, since a guess after twenty tokens that agree is worth more
// than one after two. Begins with an assumption and follows what is seen; what is no longer tried slowly becomes worth a trial again.

/** Matches of at least so many tokens are of the class. */
const CLASS_FROM = [0, 4, 8, 16] as const;
const NUM_CLASSES = CLASS_FROM.length;
/** What is assumed before anything is seen, and how many guesses that counts as. */
const ASSUMED = [0.4, 0.6, 0.75, 0.85] as const;
const ASSUMED_WEIGHT = 3;
/** More count half: a text changes. */
const MOST_WEIGHT = 32;
/** Of the way back to what was assumed, for each guess that was not tried. */
const FORGIVENESS = 0.005;

export class Acceptance {
  readonly #right = new Float64Array(NUM_CLASSES);
  readonly #tried = new Float64Array(NUM_CLASSES).fill(ASSUMED_WEIGHT);

  constructor() {
    for (let c = 0; c < NUM_CLASSES; c++) this.#right[c] = ASSUMED[c]! * ASSUMED_WEIGHT;
  }

  /** Probability that a guess is right when those before it are. */
  rateOf(matchLen: number): number {
    const c = classOf(matchLen);
    return this.#right[c]! / this.#tried[c]!;
  }

  /** Guesses behind the first wrong one say nothing. */
  observe(matchLen: number, numDrafted: number, numAccepted: number): void {
    const c = classOf(matchLen);
    this.#right[c]! += numAccepted;
    this.#tried[c]! += Math.min(numDrafted, numAccepted + 1);
    if (this.#tried[c]! <= MOST_WEIGHT) return;
    this.#right[c]! /= 2;
    this.#tried[c]! /= 2;
  }

  /** A match was not worth a guess. */
  skip(matchLen: number): void {
    const c = classOf(matchLen);
    this.#right[c]! += FORGIVENESS * (ASSUMED[c]! * this.#tried[c]! - this.#right[c]!);
  }
}

function classOf(matchLen: number): number {
  let c = NUM_CLASSES - 1;
  while (matchLen < CLASS_FROM[c]!) c--;
  return c;
}
