// Answers that wait for a test: what must be seen while one is on its way is seen, however slow or busy the machine.

import { LiveAnswer } from "../../src/engine/client/live-answer.js";
import { asServed } from "../../src/engine/served-engine.js";
import type { Engine, GenerateResult, Generation, OutputChunk } from "../../src/engine/types.js";

/** From now on answers of this engine stop once they hold this text, and none is whole, until the function that is returned is called. */
export function holdAnswers(engine: Engine, text = ""): () => void {
  const served = asServed(engine);
  const submit = served.submit.bind(served);
  let letGo!: () => void;
  const whenLetGo = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  served.submit = (prompt, options) => new HeldAnswer(submit(prompt, options), text, whenLetGo);
  return () => {
    served.submit = submit;
    letGo();
  };
}

class HeldAnswer extends LiveAnswer<OutputChunk, GenerateResult> {
  readonly id: string;
  readonly #generation: Generation;
  readonly #text: string;
  readonly #whenLetGo: Promise<void>;

  constructor(generation: Generation, text: string, whenLetGo: Promise<void>) {
    super();
    this.id = generation.id;
    this.#generation = generation;
    this.#text = text;
    this.#whenLetGo = whenLetGo;
  }

  abort(): void {
    this.#generation.abort();
  }

  async result(): Promise<GenerateResult> {
    await this.#whenLetGo;
    return this.#generation.result();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<OutputChunk> {
    let said = "";
    for await (const chunk of this.#generation) {
      yield chunk;
      said += chunk.text;
      if (said.includes(this.#text)) await this.#whenLetGo;
    }
  }

  protected textOf({ text }: OutputChunk): string {
    return text;
  }

  protected wholeText({ text }: GenerateResult): string {
    return text;
  }
}
