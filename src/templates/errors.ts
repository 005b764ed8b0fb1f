/** What a template does wrong: bad syntax, an undefined value used, a refusal of its own (raise_exception). */
export class TemplateError extends Error {
  override readonly name = "TemplateError";
}

/** It takes more than a glance: the same rendering may do with the whole budget. */
export class LongRendering extends TemplateError {}

const MAX_STEPS = 8_000_000;
/** Some 10 ms. */
const GLANCE_STEPS = 20_000;
const MAX_TEXT = 32 << 20;
const MAX_TEXTS = 256 << 20;
const MAX_MS = 4000;
/** Characters that are copied or searched in the time of one step. */
const CHARS_PER_STEP = 64;
const STEPS_PER_LOOK = 1 << 14;

/**
 * Stops what runs away. Steps are evaluated nodes, items looked at and made, and characters changed one by one; texts that are copied or
 * searched whole cost a step for every 64 characters. Steps are counted, so that the same conversation ends the same way everywhere;
 * the time limit is for what the count does not know.
 */
export class Budget {
  readonly #end = performance.now() + MAX_MS;
  readonly #isGlance: boolean;
  #steps = 0;
  #characters = 0;
  #nextLook: number;

  constructor(isGlance = false) {
    this.#isGlance = isGlance;
    this.#nextLook = isGlance ? GLANCE_STEPS : STEPS_PER_LOOK;
  }

  step(count = 1): void {
    this.#steps += count;
    if (!(this.#steps <= MAX_STEPS)) throw runaway(`more than ${MAX_STEPS} steps`);
    if (this.#steps < this.#nextLook) return;
    if (this.#isGlance) throw new LongRendering(`it takes more than ${GLANCE_STEPS} steps`);
    this.#nextLook = this.#steps + STEPS_PER_LOOK;
    if (performance.now() > this.#end) throw runaway(`more than ${MAX_MS} ms`);
  }

  /** Called before a text (or list) of this length is made. */
  make(length: number): void {
    this.#characters += length;
    if (!(length <= MAX_TEXT)) throw runaway(`a text of ${length} characters, more than ${MAX_TEXT}`);
    if (this.#characters > MAX_TEXTS) throw runaway(`more than ${MAX_TEXTS} characters of text`);
    this.step(1 + length / CHARS_PER_STEP);
  }

  /** Called before a text of this length is read from end to end. */
  scan(length: number): void {
    this.step(1 + length / CHARS_PER_STEP);
  }
}

function runaway(what: string): TemplateError {
  return new TemplateError(`it takes ${what}, which no conversation needs: the template runs away`);
}

/** Of the rendering that is under way: rendering is synchronous, so there is one at most. */
let current: Budget | null = null;

/** Every text, list, tuple and dict that `body` makes, and every item it looks at, is charged to the budget. */
export function spend<T>(budget: Budget, body: () => T): T {
  const outer = current;
  current = budget;
  try {
    return body();
  } finally {
    current = outer;
  }
}

/** Called by whatever looks at items or characters one by one. */
export const step = (count = 1): void => current?.step(count);
/** Called by whatever makes a text or a list, before it does. */
export const make = (length: number): void => current?.make(length);
/** Called by whatever reads a whole text. */
export const scan = (length: number): void => current?.scan(length);
