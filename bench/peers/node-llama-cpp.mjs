// node-llama-cpp as its users run it: one context with a sequence per request, batched by the library.

import { getLlama, LlamaLogLevel } from "node-llama-cpp";
import { CONTEXT_LEN } from "./workload.mjs";

const ROOM = 64; // cells a sequence may need beside its tokens

export async function openLlama(model) {
  // maxThreads 0: a context's own thread count is what is used.
  const llama = await getLlama({ gpu: false, build: "never", maxThreads: 0, logLevel: LlamaLogLevel.error });
  const loaded = await llama.loadModel({ modelPath: model });
  return { llama, model: loaded, close: () => llama.dispose() };
}

async function withContext(model, options, use) {
  const context = await model.createContext(options);
  try {
    return await use(context);
  } finally {
    await context.dispose();
  }
}

const optionsOf = (sequences, length, { threads, flashAttention }) => ({
  sequences,
  contextSize: length + ROOM,
  threads,
  flashAttention,
});

async function secondsOf(work) {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1000;
}

async function generate(sequence, prompt, count) {
  let left = count;
  for await (const _ of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) if (--left === 0) break;
}

export function nodeLlamaCpp({ model }, settings) {
  return {
    name: "node-llama-cpp",

    prefill: (prompts, len) =>
      withContext(model, optionsOf(1, len, settings), (context) => {
        const sequence = context.getSequence();
        return secondsOf(() => generate(sequence, prompts.next(len), 1));
      }),

    async openDecode(prompts, rows, steps) {
      const context = await model.createContext(optionsOf(rows, CONTEXT_LEN + steps, settings));
      const sequences = Array.from({ length: rows }, () => context.getSequence());
      const inputs = sequences.map(() => prompts.next(1));
      await Promise.all(sequences.map((s) => s.evaluateWithoutGeneratingNewTokens(prompts.next(CONTEXT_LEN))));
      return {
        async run() {
          const seconds = await secondsOf(() => Promise.all(sequences.map((s, i) => generate(s, inputs[i], steps))));
          for (const s of sequences) await s.eraseContextTokenRanges([{ start: CONTEXT_LEN, end: s.nextTokenIndex }]);
          return seconds;
        },
        close: () => context.dispose(),
      };
    },

    /** `parallel` sequences take the requests in order. A sequence keeps what its last and its next prompt have in common. */
    mix(requests, parallel) {
      const longest = Math.max(...requests.map(({ prompt, outputLen }) => prompt.length + outputLen));
      return withContext(model, optionsOf(parallel, longest, settings), (context) => {
        const queue = [...requests];
        const work = async (sequence) => {
          for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
            await sequence.adaptStateToTokens(next.prompt, false);
            await generate(sequence, next.prompt.slice(sequence.nextTokenIndex), next.outputLen);
          }
        };
        const sequences = Array.from({ length: parallel }, () => context.getSequence());
        return secondsOf(() => Promise.all(sequences.map(work)));
      });
    },
  };
}
