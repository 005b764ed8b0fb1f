// Guesses of every drafter, over models of every kind: texts, draft models, MTP heads and EAGLE-3, with few pages or many, cached prefixes, forks,
// preemptions, callers that leave, and whatever sampling can be asked for. Each seed is one engine that answers the same requests without
// guesses and with them: tokens, log-probabilities and errors are the same, and every page comes back.

import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { PagodaError } from "../../src/core/errors.js";
import type { SpeculationMethod } from "../../src/core/speculation.js";
import { createEngine, type EngineOptions } from "../../src/engine/client/engine.js";
import type { Engine, GenerateOptions } from "../../src/engine/types.js";
import { seeded } from "../support/byte-matcher.js";
import { openCpu } from "../support/cpu.js";
import { GUESSERS, KINDS, modelOf } from "../support/kinds.js";
import { pick, type Random } from "./mutate.js";

const CONTEXT = 128;
const MOST_PROMPT = 60;
const MOST_TOKENS = 40;
const ROUNDS = 3;
const MOST_LANDING_MS = 5000;

const OPTIONS: Readonly<Record<string, readonly unknown[]>> = {
  kvDtype: ["auto", "f32", "f16", "bf16", "i8"],
  pageSize: [1, 4, 16],
  threads: [1, 2],
  prefixCaching: [false, true, true],
  mode: ["chunked", "extend", "extend"],
  fixedChunk: [3, 32],
  idealChunk: [8, 32, 128],
  hostCacheMb: [0, 0, 1],
  speculativeTokens: [1, 2, 4, 15],
  speculativeMinMatch: [1, 1, 2],
  speculativeHistory: [0, 64, 4096],
};

/** What may be asked for beside each other. */
const WAYS: readonly GenerateOptions[] = [
  {},
  { temperature: 0 },
  { temperature: 0, repetitionPenalty: 1.3, logprobs: 3 },
  { temperature: 0.7, topK: 3, logprobs: 2 },
  { temperature: 1.2, topP: 0.8, minP: 0.02, n: 2 },
  { temperature: 1, n: 3, logprobs: 1 },
  { temperature: 0.5, frequencyPenalty: 0.4, presencePenalty: -0.2, minTokens: 9 },
  { temperature: 0.4, promptLogprobs: 2 },
  { temperature: 0, stop: ["A", "zz", "<="] },
  { temperature: 0.9, stopTokenIds: [61, 66, 67], minTokens: 3, n: 2 },
  { temperature: 0.3, constraint: { kind: "regex", source: "(ab|cd){4,12}" } },
  { temperature: 0, constraint: { kind: "regex", source: "(abcdefgh){1,4}" } },
  { temperature: 0.8, dryMultiplier: 0.8, xtcProbability: 0.5, xtcThreshold: 0.05 },
];

interface Subject {
  readonly name: string;
  readonly methods: readonly SpeculationMethod[];
  readonly options: () => EngineOptions;
}

export class GuessFuzzer {
  readonly #subjects = subjects();
  readonly #steps = new Map<string, number>();
  readonly #asked: readonly string[];
  #devices: readonly string[] | null = null;

  /** devices: those to run on; none: the reference device and, where it is here, the cpu device. */
  constructor({ devices = [] }: { devices?: readonly string[] } = {}) {
    this.#asked = devices;
  }

  /** Steps that tried guesses so far, by what guessed. */
  get facts(): string {
    const parts = [...this.#steps].map(([method, steps]) => `${method} ${steps}`).sort();
    return `steps with guesses: ${parts.join(", ")}`;
  }

  /** What differs; null: nothing. */
  async try(seed: number): Promise<string | null> {
    this.#devices ??= this.#asked.length > 0 ? this.#asked : await devicesHere();
    const random = seeded(seed);
    const { name, methods, options } = pick(random, this.#subjects);
    const method = pick(random, methods);
    const chosen = Object.fromEntries(
      Object.entries(OPTIONS).map(([option, values]) => [option, pick(random, values)]),
    );
    const pages = Math.ceil(CONTEXT / Number(chosen.pageSize));
    const numPages = Math.ceil(pages * pick(random, [2.5, 4, 12])) + 1;
    const maxPagesPerBatch = Math.ceil(pages * pick(random, [0.3, 1, 2]));
    const whole: EngineOptions = {
      ...{
        ...chosen,
        device: pick(random, this.#devices) as "cpu",
        numPages,
        maxPagesPerBatch,
        maxContext: CONTEXT,
        targetStepMs: 0,
        worker: false,
      },
      ...{ speculative: method, ...options() },
    };
    try {
      await using engine = await createEngine(whole);
      for (let round = 0; round < ROUNDS; round++) {
        const wrong = await this.#compare(engine, method, random, seed * ROUNDS + round);
        if (wrong !== null) return `${name} by ${method}, round ${round}, ${JSON.stringify(whole)}: ${wrong}`;
      }
      return null;
    } catch (error) {
      return `${name} by ${method}, ${JSON.stringify(whole)}: ${(error as Error).stack ?? error}`;
    }
  }

  async #compare(engine: Engine, method: SpeculationMethod, random: Random, seed: number): Promise<string | null> {
    const asked = Array.from({ length: 2 + Math.floor(random() * 8) }, (_, i) => askedFor(random, 16 * seed + i));
    /** Rows with and without guesses, and of other guesses, share the steps; some of their callers leave. */
    const methods = asked.map(() => pick(random, [method, method, method, "off", "ngram"] as const));
    const leaves = asked.map(() => (random() < 0.15 ? Math.floor(random() * 12) : Number.POSITIVE_INFINITY));
    const passes = [
      () =>
        answersOf(
          engine,
          asked,
          asked.map(() => "off"),
        ),
      () => answersOf(engine, asked, methods, leaves),
    ];
    const isFirst = random() < 0.3;
    const before = (await engine.stats()).speculation.drafts;
    const first = await passes[isFirst ? 1 : 0]!();
    const second = await passes[isFirst ? 0 : 1]!();
    const { speculation } = await engine.stats();
    this.#steps.set(method, (this.#steps.get(method) ?? 0) + speculation.drafts - before);
    for (let i = 0; i < asked.length; i++) {
      if (leaves[i] !== Number.POSITIVE_INFINITY || isDeepStrictEqual(first[i], second[i])) continue;
      return `${JSON.stringify(asked[i])} by ${methods[i]}: ${JSON.stringify(first[i])} and ${JSON.stringify(second[i])}`;
    }
    // Those of callers that left come back when the step has landed that computed for them.
    for (const endMs = performance.now() + MOST_LANDING_MS; ; await sleep(1)) {
      const { pagesUsed, running } = await engine.stats();
      if (pagesUsed + running === 0) return null;
      if (performance.now() > endMs) return `${pagesUsed} pages and ${running} requests are left`;
    }
  }
}

interface Asked {
  readonly prompt: readonly number[];
  readonly options: GenerateOptions;
}

/** Prompts of few letters repeat themselves, and begin alike. */
function askedFor(random: Random, seed: number): Asked {
  const letters = pick(random, [2, 5, 11]);
  const length = 1 + Math.floor(random() * MOST_PROMPT);
  const isShared = random() < 0.6;
  const prompt = Array.from({ length }, (_, i) =>
    isShared && i < 0.7 * length ? 60 + ((i * i) % 7) : 60 + Math.floor(random() * letters),
  );
  const maxTokens = 1 + Math.floor(random() * MOST_TOKENS);
  const few = random() < 0.6 ? { logitBias: [60, 61, 62, 63].map((id): [number, number] => [id, 6]) } : {};
  const own = { maxTokens, seed, ignoreEos: random() < 0.8, client: pick(random, ["", "a"]) };
  return { prompt, options: { ...few, ...own, ...pick(random, WAYS) } };
}

/** Of each request all that its caller can see, or the code of its error. */
function answersOf(
  engine: Engine,
  asked: readonly Asked[],
  methods: readonly SpeculationMethod[],
  leaves: readonly number[] = [],
): Promise<unknown[]> {
  return Promise.all(
    asked.map(async ({ prompt, options }, i) => {
      const generation = engine.generate([...prompt], { ...options, speculative: methods[i]! });
      try {
        const stays = leaves[i] ?? Number.POSITIVE_INFINITY;
        if (stays !== Number.POSITIVE_INFINITY) {
          let seen = 0;
          for await (const { tokenIds } of generation) {
            seen += tokenIds.length;
            if (seen > stays) break;
          }
          return null;
        }
        const { samples, promptLogprobs } = await generation.result();
        return { samples, promptLogprobs };
      } catch (error) {
        if (error instanceof PagodaError) return error.code;
        throw error;
      }
    }),
  );
}

async function devicesHere(): Promise<readonly string[]> {
  const { device } = await openCpu();
  device?.close();
  return device === null ? ["reference"] : ["reference", "cpu", "cpu"];
}

/** Each kind of drafter about as often. */
function subjects(): Subject[] {
  const texts = KINDS.map((kind): Subject => {
    return { name: kind, methods: ["ngram", "suffix"], options: () => ({ model: modelOf(kind) }) };
  });
  const weights = GUESSERS.map((guesser): Subject => ({ ...guesser, methods: [guesser.method] }));
  const eagles = weights.filter(({ methods }) => methods[0] === "eagle3");
  return [...texts, ...texts, ...weights, ...eagles, ...eagles];
}
