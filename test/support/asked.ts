// What is asked of an engine to see whether guesses change anything: greedy and drawn, under grammars and penalties, with log-probabilities, several
// samples and every way to stop.

import type { SpeculationMethod } from "../../src/core/speculation.js";
import type { EngineOptions } from "../../src/engine/client/engine.js";
import type { Engine, GenerateOptions } from "../../src/engine/types.js";
import { openCpu } from "./cpu.js";
import { openCuda } from "./cuda.js";

const cpu = await openCpu();
cpu.device?.close();
const cuda = await openCuda();
cuda.device?.close();
/** Devices that answer, each with why it is not here; false: it is. */
export const ANSWERING = [
  ["reference", false],
  ["cpu", cpu.reason],
  ["cuda", cuda.reason],
] as const;

/** Of engines that guess: small ones, whose steps gain nothing by it and would try no guess if they were measured. */
export const GUESSING: EngineOptions = { worker: false, numPages: 300, threads: 2, targetStepMs: 0 };

const PROMPT = Array.from({ length: 40 }, (_, i) => 60 + ((i * i) % 11));
/** Answers of few tokens repeat themselves, which drafters of texts need. */
const FEW: [number, number][] = [60, 61, 62, 63].map((id) => [id, 5]);
const BASE: GenerateOptions = { maxTokens: 32, temperature: 0, ignoreEos: true, logprobs: 2 };
const ASKED: readonly GenerateOptions[] = [
  BASE,
  { ...BASE, logitBias: FEW },
  { ...BASE, temperature: 0.7, topK: 3, logitBias: FEW },
  { ...BASE, temperature: 1.2, topP: 0.9, n: 3 },
  { ...BASE, temperature: 0.8, n: 2, logitBias: FEW },
  { ...BASE, temperature: 0.5, repetitionPenalty: 1.2, frequencyPenalty: 0.3, presencePenalty: 0.2, minTokens: 9 },
  { ...BASE, temperature: 0.3, minP: 0.05 },
  { ...BASE, promptLogprobs: 1, maxTokens: 9 },
  { ...BASE, stop: ["A", "zz"], logitBias: [...FEW, [65, 4]] },
  { ...BASE, stopTokenIds: [66, 67], logitBias: [...FEW, [66, 4]] },
  { ...BASE, constraint: { kind: "regex", source: "(ab|cd){4,12}" } },
  { ...BASE, temperature: 0.9, constraint: { kind: "regex", source: "(abcdefgh){1,4}" } },
];

/** Everything that a caller can see of a set of answers, asked for at once. */
export async function answersBy(engine: Engine, method: SpeculationMethod): Promise<unknown[]> {
  const results = await Promise.all(
    ASKED.map((options, i) => {
      const ids = [...PROMPT, 70 + i, ...PROMPT.slice(0, 12 + i)];
      return engine.generate(ids, { ...options, seed: i, speculative: method }).result();
    }),
  );
  return results.map(({ samples, promptLogprobs }) => ({ samples, promptLogprobs }));
}
