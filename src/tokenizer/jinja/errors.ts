/** What a template does wrong: bad syntax, an undefined value used, a refusal of its own (raise_exception). */
export class TemplateError extends Error {
  override readonly name = "TemplateError";
}

const MAX_STEPS = 3_000_000;
const MAX_TEXT = 32 << 20;
const MAX_TEXTS = 512 << 20;

/** Stops what runs away: steps are evaluated nodes and iterations, characters those of the strings made on the way. */
export class Budget {
  #steps = 0;
  #characters = 0;

  step(count = 1): void {
    this.#steps += count;
    if (this.#steps > MAX_STEPS) throw runaway(`more than ${MAX_STEPS} steps`);
  }

  /** Called before a text (or list) of this length is made. */
  make(length: number): void {
    this.#characters += length;
    if (length > MAX_TEXT) throw runaway(`a text of ${length} characters, more than ${MAX_TEXT}`);
    if (this.#characters > MAX_TEXTS) throw runaway(`more than ${MAX_TEXTS} characters of text`);
  }
}

function runaway(what: string): TemplateError {
  return new TemplateError(`it takes ${what}, which no conversation needs: the template runs away`);
}
