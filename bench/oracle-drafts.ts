// What runs are worth on a device: decodes without guesses, and with those of a drafter that knows the answers and is right with
// probability p, in turns. It says what a step with guesses costs; how often guesses are right is another matter.
//   node dist/bench/oracle-drafts.js MODEL [device] [rows,rows,...] [p] [guesses] [tokens]

import { engineConfig } from "../src/config/engine-config.js";
import { SAMPLING_DEFAULTS } from "../src/core/sampling.js";
import type { Drafter } from "../src/drafter/drafter.js";
import { openDevice } from "../src/engine/core/load/devices.js";
import { loadEngine } from "../src/engine/core/load/load.js";
import { OutputReader } from "../src/engine/outputs.js";
import { makeRandom } from "../test/support/random.js";

const [model = "", deviceName = "cuda", rowList = "1,32", p = "0.8", guesses = "4", length = "160"] =
  process.argv.slice(2);
const ROUNDS = 3;
const PROMPT = 64;
const numGuesses = Number(guesses);
const random = makeRandom(5);

/** By prompt: the answers without guesses. */
const answers = new Map<number, number[]>();
const oracle: Drafter = {
  propose: (request, most) => {
    const answer = answers.get(request.tokens[0]!);
    if (answer === undefined) return 0; // of the warm-up
    const count = Math.min(most, numGuesses);
    for (let i = 0; i < count; i++) {
      const token = answer[request.numGenerated + i] ?? 0;
      request.tokens[request.numTokens + i] = random(1000) < 1000 * Number(p) ? token : token ^ 1;
    }
    return count;
  },
  foresees: () => true,
};

const config = engineConfig({ model, device: deviceName as "cuda", maxPagesPerBatch: 128, prefixCaching: false });
const { core, facts } = await loadEngine(config, () => {}, openDevice, oracle);
const reader = new OutputReader<string>((callId) => callId);
let numCalls = 0;

interface Timing {
  readonly tokensPerSecond: number;
  readonly tokensPerStep: number;
  readonly stepMs: number;
  /** Of the time all that was not waiting for the device. */
  readonly hostShare: number;
}

/** From the step after all rows have a token until the first of them ends. */
function decode(rows: number, isDrafted: boolean): Timing {
  const seen = new Map<string, number[]>();
  for (let r = 0; r < rows; r++) {
    const callId = `c${numCalls++}`;
    const first = 1 + r;
    seen.set(callId, []);
    if (!isDrafted) answers.set(first, seen.get(callId)!);
    core.add({
      ...{ type: "add", callId, kind: "generate", priority: 0, salt: "", arrivalMs: 0, constraint: null },
      prompt: Int32Array.from({ length: PROMPT }, (_, i) => (i === 0 ? first : (i * 37 + r * 11) % facts.vocabSize)),
      sampling: { ...SAMPLING_DEFAULTS, temperature: 0, ignoreEos: true, maxTokens: Number(length), seed: r },
      speculation: isDrafted ? { method: "suffix", tokens: numGuesses } : { method: "off" },
    });
  }
  let numTokens = 0;
  let numSteps = 0;
  let startMs = 0;
  let timing: Timing | null = null;
  let waitedMs = 0;
  const { ms: stages } = core.recorder.clock;
  while (core.hasWork) {
    core.step();
    numSteps++;
    const outputs = core.takeOutputs();
    if (outputs === null) continue;
    let hasEnded = false;
    for (reader.open(outputs); reader.next(); ) {
      const tokens = seen.get(reader.callId)!;
      for (let i = 0; i < reader.numTokens; i++) tokens.push(reader.tokenAt(i));
      numTokens += reader.numTokens;
      if (reader.note.error !== null) throw new Error(JSON.stringify(reader.note.error));
      hasEnded ||= reader.note.finishReason !== null;
    }
    if (startMs === 0 && [...seen.values()].every((tokens) => tokens.length > 1)) {
      startMs = performance.now();
      numTokens = numSteps = 0;
      waitedMs = stages.wait;
    }
    if (hasEnded && timing === null) {
      const ms = performance.now() - startMs;
      timing = {
        tokensPerSecond: (1000 * numTokens) / ms,
        tokensPerStep: numTokens / numSteps,
        stepMs: ms / numSteps,
        hostShare: 1 - (stages.wait - waitedMs) / ms,
      };
    }
  }
  if (isDrafted) {
    let r = 0;
    for (const tokens of seen.values()) {
      if (tokens.join() !== answers.get(1 + r++)!.join()) throw new Error("guesses changed an answer");
    }
  }
  return timing!;
}

console.log(`${model}, ${facts.device}: p = ${p}, ${guesses} guesses, medians of ${ROUNDS} rounds in turns`);
console.log(
  "rows    tok/s without      with    ratio   tokens a step   ms a step without      with   % host without      with",
);
for (const rows of rowList.split(",").map(Number)) {
  for (const isDrafted of [false, true, false, true]) decode(rows, isDrafted); // compiles, captures
  const plain: Timing[] = [];
  const drafted: Timing[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    plain.push(decode(rows, false));
    drafted.push(decode(rows, true));
  }
  const median = (of: readonly Timing[], key: keyof Timing): number =>
    of.map((timing) => timing[key]).toSorted((a, b) => a - b)[of.length >> 1]!;
  const [without, withGuesses] = [median(plain, "tokensPerSecond"), median(drafted, "tokensPerSecond")];
  const cells = [without.toFixed(0), withGuesses.toFixed(0), (withGuesses / without).toFixed(2)];
  const steps = [median(drafted, "tokensPerStep"), median(plain, "stepMs"), median(drafted, "stepMs")];
  const host = [plain, drafted].map((timings) => (100 * median(timings, "hostShare")).toFixed(1));
  console.log([`${rows}`.padEnd(6), ...cells, ...steps.map((x) => x.toFixed(3)), ...host].join("\t"));
}
core.close();
