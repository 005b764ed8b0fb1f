// Answers that wait for a test: what must be seen while one is on its way is seen, however slow or busy the machine.

import type { Engine } from "../../src/engine/types.js";

/** From now on answers of this engine stop once they hold this text, and none is whole, until the function that is returned is called. */
export function holdAnswers(engine: Engine, text = ""): () => void {
  const generate = engine.generate.bind(engine);
  let letGo!: () => void;
  const whenLetGo = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  engine.generate = (prompt, options) => {
    const generation = generate(prompt, options);
    return {
      id: generation.id,
      abort: () => generation.abort(),
      result: async () => {
        await whenLetGo;
        return generation.result();
      },
      async *[Symbol.asyncIterator]() {
        let said = "";
        for await (const chunk of generation) {
          yield chunk;
          said += chunk.text;
          if (said.includes(text)) await whenLetGo;
        }
      },
    };
  };
  return () => {
    engine.generate = generate;
    letGo();
  };
}
