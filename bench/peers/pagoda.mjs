// Pagoda as its users run it: an engine with its own thread, called through the public API. `root` is the clone whose build is
// run, this one unless said otherwise: another clone of an earlier commit gives a before and after in one run.

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { CONTEXT_LEN } from "./workload.mjs";

const HERE = new URL("../../", import.meta.url);

export async function openPagoda({ model, threads, root, name = "pagoda" }) {
  const clone = root === undefined ? HERE : pathToFileURL(`${resolve(root)}/`);
  const { createEngine } = await import(new URL("dist/src/index.js", clone).href);
  // Random weights repeat themselves: guesses would come true as they do for no real model. Earlier commits do not know the word.
  const engine = await createEngine({ model, threads, ...(root === undefined ? { speculative: "off" } : {}) });
  let runs = 0;
  const generate = (prompt, maxTokens, salt) =>
    engine.generate(prompt, { maxTokens, ignoreEos: true, temperature: 0, salt }).result();

  return {
    name,
    threads,
    vocabSize: engine.model.vocabSize,
    description: engine.model.device,

    /** Seconds to the first token. */
    async prefill(prompts, len) {
      const prompt = prompts.next(len);
      const start = performance.now();
      await generate(prompt, 1, "");
      return (performance.now() - start) / 1000;
    },

    /** Computes the contexts of `rows` sequences; run() gives the seconds for `steps` more tokens of each. */
    async openDecode(prompts, rows, steps) {
      const all = Array.from({ length: rows }, () => prompts.next(CONTEXT_LEN + 1));
      await Promise.all(all.map((prompt) => generate(prompt, 1, "")));
      return {
        async run() {
          const start = performance.now();
          await Promise.all(all.map((prompt) => generate(prompt, steps, "")));
          return (performance.now() - start) / 1000;
        },
        close() {},
      };
    },

    /** Seconds until the last answer is done. The salt hides earlier runs from the prefix cache. */
    async mix(requests) {
      const salt = `run-${runs++}`;
      const start = performance.now();
      await Promise.all(requests.map(({ prompt, outputLen }) => generate(prompt, outputLen, salt)));
      return (performance.now() - start) / 1000;
    },

    close: () => engine.close(),
  };
}
