// Time to the first token of a long prompt: computed, found in the device's pages, and brought back from the tier in host memory.
//   node dist/bench/host-tier.js MODEL [device] [tokens]
// The pool has room for two and a half such prompts; three take turns, so that each finds its pages evicted.

import { engineConfig } from "../src/config/engine-config.js";
import { SAMPLING_DEFAULTS } from "../src/core/sampling.js";
import { loadEngine } from "../src/engine/core/load/load.js";

const [model = "", device = "cuda", length = "4000"] = process.argv.slice(2);
const tokens = Number(length);
const ROUNDS = 5;
const pageSize = 16;
const perPrompt = Math.ceil((tokens + 1) / pageSize);
const config = engineConfig({
  model,
  device,
  pageSize,
  numPages: Math.floor(2.5 * perPrompt),
  maxPagesPerBatch: 512,
  idealChunk: 8192,
  ...(device === "cuda" ? {} : { hostCacheMb: 4096 }),
});
const { core, facts } = await loadEngine(config, () => {});

/** Milliseconds until the first token, which is returned with its log-probability and the tokens that were cached. */
function ask(series: number): { ms: number; answer: string; cached: number } {
  const start = performance.now();
  core.add({
    type: "add",
    callId: "call",
    kind: "generate",
    prompt: Int32Array.from({ length: tokens }, (_, i) => (i * 7919 + series * 104729) % facts.vocabSize),
    sampling: { ...SAMPLING_DEFAULTS, temperature: 0, seed: 0, ignoreEos: true, maxTokens: 1, logprobs: 0 },
    priority: 0,
    salt: "",
    arrivalMs: 0,
    constraint: null,
  });
  let answer = "";
  let cached = 0;
  while (core.hasWork) {
    core.step();
    const outputs = core.takeOutputs();
    if (outputs === null) continue;
    answer += JSON.stringify([[...outputs.tokens], [...(outputs.logprobs?.values ?? [])]]);
    for (const { trace } of outputs.notes) cached = trace?.cachedTokens ?? cached;
  }
  core.checkIntegrity();
  return { ms: performance.now() - start, answer, cached };
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!;
// Until all of the tier's memory is locked in place, which goes slowly.
let filler = 1000;
for (const end = performance.now() + 15_000; performance.now() < end; ask(filler++)) {
  const { bytes, maxBytes } = core.stats().hostTier!;
  if (bytes > 0.95 * Math.min(maxBytes, 2.4 * perPrompt * facts.pageBytes)) break;
}
const computed: number[] = [];
const found: number[] = [];
const broughtBack: number[] = [];
let wrong = 0;
const first = Array.from({ length: 3 }, (_, series) => {
  const { ms, answer } = ask(series);
  computed.push(ms);
  const again = ask(series);
  found.push(again.ms);
  if (again.answer !== answer) wrong++;
  return answer;
});
const before = core.stats().hostTier!.restored;
for (let round = 0; round < ROUNDS; round++) {
  for (const [series, answer] of first.entries()) {
    const again = ask(series);
    broughtBack.push(again.ms);
    if (again.answer !== answer || again.cached < tokens - pageSize) wrong++;
  }
}
const { restored, spilled, bytes, maxBytes } = core.stats().hostTier!;
const perTurn = ((restored - before) / (3 * ROUNDS)) * facts.pageBytes;
const ms = (values: readonly number[]): string => `${median(values).toFixed(2)} ms`;
console.log(`first token of ${tokens}: computed ${ms(computed)}, cached ${ms(found)}, from host ${ms(broughtBack)}`);
console.log(
  `${(perTurn / 1e6).toFixed(0)} MB a turn come back: ${(perTurn / 1e6 / median(broughtBack)).toFixed(1)} GB/s at least`,
);
console.log(
  `tier: ${bytes >> 20} of ${Math.floor(maxBytes / 2 ** 20)} MiB, ${spilled} spilled, ${restored} restored, ${wrong} answers differ`,
);
process.exitCode = wrong === 0 && core.stats().pagesUsed === 0 ? 0 : 1;
core.close();
