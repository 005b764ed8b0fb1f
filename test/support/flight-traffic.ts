// Random calls to an engine's core on the delayed device. The n-th request is the same whatever the depth; what it is answered is
// checked against the oracle as far as it goes, and kept for comparison.

import assert from "node:assert/strict";
import type { GroupOptions } from "../../src/cache/cache-group.js";
import { CacheManager } from "../../src/cache/cache-manager.js";
import { HostTier } from "../../src/cache/host-tier.js";
import type { FinishReason } from "../../src/core/request.js";
import { createSampled, sampleRow } from "../../src/core/sample-row.js";
import { SAMPLING_DEFAULTS, type SamplingParams } from "../../src/core/sampling.js";
import type { StagedBatch } from "../../src/device/device.js";
import type { Drafter } from "../../src/drafter/drafter.js";
import { EngineCore } from "../../src/engine/core/engine-core.js";
import { PageBytes } from "../../src/engine/core/pages/page-bytes.js";
import type { AddMessage, RequestKind } from "../../src/engine/messages.js";
import type { EngineStats } from "../../src/engine/types.js";
import type { ConstraintSpec, TokenConstraint } from "../../src/grammar/constraint.js";
import type { Model, ModelSpec } from "../../src/models/model.js";
import { longestRow, Scheduler, type SchedulerOptions } from "../../src/scheduler/scheduler.js";
import { DelayedDevice, HIDDEN, tokenAfter } from "./delayed-device.js";
import { outputsOf } from "./outputs.js";
import { makeRandom, type Random } from "./random.js";
import { type DrawSpec, drawsOf } from "./sampled.js";
import { tokensOf } from "./simulation.js";

export interface TrafficOptions extends Omit<SchedulerOptions, "mode"> {
  readonly mode?: SchedulerOptions["mode"];
  readonly pages: number;
  readonly prefixCaching?: boolean;
  /** Cache groups beside the full one. */
  readonly groups?: readonly GroupOptions[];
  readonly drafter?: Drafter;
  /** Bytes of a second tier in host memory; default: none. */
  readonly hostBytes?: number;
}

/** What one sample of a call was answered. */
export interface Answered {
  readonly tokens: number[];
  readonly logprobs: unknown[];
  finishReason: FinishReason | null;
  vector: number[] | null;
  /** Of the prompt, as the first output brings them. */
  numScores: number;
}

interface Planned {
  readonly message: AddMessage;
  /** The caller goes away once so many tokens of the first sample are out; -1: it stays. */
  readonly abortAt: number;
  readonly hasHook: boolean;
}

const VOCAB = 50;
const MAX_LIVE = 12;
const MAX_CONTEXT = 120;

export class FlightTraffic {
  readonly core: EngineCore;
  readonly results = new Map<string, Answered>();
  readonly numEnded = { stop: 0, length: 0, abort: 0, error: 0 };
  numForks = 0;
  /** Tokens of constrained samples that came with another one behind them. */
  numMaskedGuesses = 0;
  /** Steps after which a flight was in flight. */
  numAhead = 0;
  readonly #device: DelayedDevice;
  readonly #cache: CacheManager;
  readonly #live = new Map<string, Planned>(); // by call id
  readonly #numOpen = new Map<string, number>(); // samples of a call that have not ended
  readonly #random: Random;
  readonly #seed: number;
  #numArrived = 0;

  constructor(options: TrafficOptions, depth: 1 | 2, seed: number) {
    const { pageSize, pages, prefixCaching = true, mode = "extend" } = options;
    this.#seed = seed;
    this.#random = makeRandom(seed * 1000 + depth);
    const device = new DelayedDevice(depth, () => this.#random(3) === 0);
    this.#device = device;
    const groups: GroupOptions[] = [{ kind: "full", numPages: pages + 1 }, ...(options.groups ?? [])];
    const maxChunk = longestRow({ ...options, mode });
    const shape = { pageSize, numLayers: 1, numKvHeads: 1, keyDim: 1, valueDim: 1, dtype: "f32" } as const;
    const caches = groups.map(({ kind, numPages }, group) =>
      kind === "state"
        ? device.allocStatePool({ numSlots: numPages, floats: 1 })
        : device.allocKvPool({ ...shape, group, numPages }),
    );
    const hostTier =
      options.hostBytes === undefined ? null : new HostTier(options.hostBytes, new PageBytes(device, caches));
    this.#cache = new CacheManager({ pageSize, prefixCaching, maxChunk, groups, hostTier });
    const scheduler = new Scheduler({ ...options, mode }, this.#cache, () => 0);
    this.core = new EngineCore({
      name: "traffic",
      device,
      model: modelOn(device, scheduler.budget),
      caches,
      pageSize,
      cache: this.#cache,
      scheduler,
      planners: [],
      maxLogitRows: 5, // several blocks in a flight
      maxContext: Math.min(MAX_CONTEXT, pages * pageSize),
      eosIds: [0],
      compiler: {
        ready: async () => {},
        compile: (spec) => countingConstraint(spec, () => this.numMaskedGuesses++),
        warm: () => {},
        settle: () => {},
        close: () => {},
      },
      clock: () => 0,
      drafter: options.drafter ?? null,
    });
  }

  stats(): EngineStats {
    return this.core.stats();
  }

  /** Flights that were launched before the masks of their draws were known. */
  get numLate(): number {
    return this.#device.numLate;
  }

  get numDropped(): number {
    return this.core.recorder.numDropped;
  }

  step(): void {
    const random = this.#random;
    if (this.#live.size < MAX_LIVE && random(2) === 0) this.#arrive();
    if (random(120) === 0) this.core.injectFault();
    if (random(120) === 0) this.#device.injectFault();
    if (random(40) === 0) this.#abort([...this.#live.keys()][random(Math.max(1, this.#live.size))]);
    this.core.step();
    this.#takeOutputs();
    this.#check();
  }

  drain(): void {
    for (let i = 0; this.core.hasWork; i++) {
      assert.ok(i < 5000, "does not drain");
      this.core.step();
      this.#takeOutputs();
      this.#check();
    }
    assert.equal(this.#live.size, 0, "a call was never answered");
    assert.equal(this.#cache.stats().pagesUsed, 0, "pages leak");
  }

  #check(): void {
    if (this.core.numInFlight > 0) this.numAhead++;
    this.core.checkIntegrity();
    assert.deepEqual(this.#device.hazards, []);
  }

  #arrive(): void {
    const index = this.#numArrived++;
    const planned = planOf(index, makeRandom(this.#seed * 100_000 + index));
    const { message } = planned;
    this.#live.set(message.callId, planned);
    this.#numOpen.set(message.callId, message.sampling.n);
    for (let s = 0; s < message.sampling.n; s++) {
      this.results.set(`${message.callId}#${s}`, {
        tokens: [],
        logprobs: [],
        finishReason: null,
        vector: null,
        numScores: 0,
      });
    }
    this.core.add(message, planned.hasHook ? () => {} : null);
  }

  #abort(id: string | undefined): void {
    if (id === undefined) return;
    this.core.abort(id, -1);
    this.#takeOutputs();
    // Samples that had not begun are never heard of.
    this.#live.delete(id);
  }

  #takeOutputs(): void {
    const leaving: string[] = [];
    for (const output of outputsOf(this.core)) {
      const { callId: id, index, finishReason, error } = output;
      const planned = this.#live.get(id);
      assert.ok(planned !== undefined, `${id} is answered after its end`);
      const answered = this.results.get(`${id}#${index}`)!;
      assert.equal(answered.finishReason, null, `${id}#${index} is answered after its end`);
      if (index > 0 && answered.tokens.length === 0) this.numForks++;
      answered.tokens.push(...output.tokens);
      answered.logprobs.push(...(output.logprobs ?? []));
      if (output.promptLogprobs !== null) answered.numScores = output.promptLogprobs.length;
      if (output.vector !== null) answered.vector = [...output.vector];
      if (error !== null) assert.match(String(error.details.reason), RegExp(`^(injected fault|mask of ${id})$`));
      if (finishReason !== null) {
        answered.finishReason = finishReason;
        this.numEnded[finishReason]++;
        checkAnswer(planned, answered, index);
        // An error of the first sample before any token ends the whole call.
        const left = finishReason === "error" && answered.tokens.length === 0 ? 0 : this.#numOpen.get(id)! - 1;
        this.#numOpen.set(id, left);
        if (left === 0) this.#live.delete(id);
      } else if (index === 0 && planned.abortAt >= 0 && answered.tokens.length >= planned.abortAt) leaving.push(id);
    }
    for (const id of leaving) this.#abort(id);
  }
}

/** The n-th request, whatever the engine does with it. */
function planOf(index: number, random: Random): Planned {
  const prompt = [...tokensOf(random(3), random(30)), ...tokensOf(10 + index, 1 + random(random(8) === 0 ? 70 : 20))];
  const kind: RequestKind = random(12) === 0 ? "pool" : "generate";
  const pooling = random(2) === 0 ? "last" : "mean";
  const isPlain = kind === "generate" && random(3) > 0;
  const sampling: SamplingParams = {
    ...SAMPLING_DEFAULTS,
    temperature: random(2),
    seed: index,
    maxTokens: random(26),
    n: kind === "generate" && random(6) === 0 ? 3 : 1,
    stopTokenIds: random(2) === 0 ? [random(VOCAB)] : [],
    ignoreEos: random(2) === 0,
    logprobs: !isPlain && random(3) === 0 ? 2 : null,
    minTokens: !isPlain && random(3) === 0 ? 5 : 0,
    promptLogprobs: kind === "generate" && random(10) === 0 ? 0 : null,
  };
  const message: AddMessage = {
    type: "add",
    callId: `r${index}`,
    kind,
    pooling,
    prompt: Int32Array.from(prompt, (token) => token % 10_007),
    sampling,
    priority: random(4) === 0 ? random(3) - 1 : 0,
    salt: random(5) === 0 ? `tenant ${random(20)}` : "",
    client: `client ${index % 3}`,
    arrivalMs: 0,
    constraint:
      !isPlain && kind === "generate" && random(3) === 0
        ? { kind: "json", source: `${1 + random(9)} r${index}` }
        : null,
  };
  const abortAt = random(8) === 0 ? 1 + random(10) : -1;
  const hasHook = !isPlain && random(3) === 0;
  const edits: Partial<SamplingParams> = {
    ...(random(3) === 0 ? { repetitionPenalty: 1.5 } : {}),
    ...(random(3) === 0 ? { presencePenalty: random(3) - 0.5, frequencyPenalty: 0.4 } : {}),
    ...(random(4) === 0 ? { topK: 7, topP: 0.9, minP: 0.01, logitBias: [[random(VOCAB), 0.6]] } : {}),
  };
  return { message: { ...message, sampling: { ...sampling, ...edits } }, abortAt, hasHook };
}

/** As far as it goes, the answer is what the oracle gives; a first sample that ended by itself ended where it should. */
function checkAnswer({ message }: Planned, { tokens, finishReason, numScores }: Answered, index: number): void {
  const { prompt, sampling, kind, callId: id, constraint } = message;
  if (kind !== "generate") return;
  const isScored = tokens.length > 0 || finishReason === "length";
  if (sampling.promptLogprobs !== null && isScored && index === 0) assert.equal(numScores, prompt.length, id);
  const known = [...prompt];
  const stopIds = [...sampling.stopTokenIds, ...(sampling.ignoreEos ? [] : [0])];
  const limit = Math.min(sampling.maxTokens, MAX_CONTEXT - prompt.length);
  assert.ok(tokens.length <= limit, `${id}#${index} is too long`);
  for (const [i, token] of tokens.entries()) {
    // Other samples draw their first token, and hosts draw all of a hot one's.
    const isDrawn = sampling.temperature > 0;
    if (!isDrawn && i >= sampling.minTokens)
      assert.equal(
        token,
        greedyAfter(known, prompt.length, sampling, constraint !== null),
        `${id}#${index}: token ${i}`,
      );
    known.push(token);
    const isLast = i === tokens.length - 1;
    const isStop = stopIds.includes(token) && i + 1 > sampling.minTokens;
    if (!isLast) assert.ok(!isStop && i + 1 < limit, `${id}#${index} goes on after its end`);
    else if (finishReason === "stop") assert.ok(isStop || constraint !== null, `${id}#${index} stops without a reason`);
  }
}

/** The oracle's token, with what the request adds to logits and takes from them: all its tokens at once, by the rule of one row. */
function greedyAfter(
  tokens: readonly number[],
  promptLen: number,
  sampling: SamplingParams,
  isMasked: boolean,
): number {
  const logits = new Float32Array(VOCAB);
  logits[tokenAfter(tokens, VOCAB)] = 1;
  const spec: DrawSpec = { ...sampling, temperature: 0, logprobs: null };
  const context = { prompt: tokens.slice(0, promptLen), answer: tokens.slice(promptLen) };
  const draws = drawsOf([{ ...spec, ...context }], VOCAB);
  if (isMasked) draws.setMask(maskBehind(context.answer));
  const sampled = createSampled(1);
  sampleRow(sampled, 0, logits, draws, 0);
  return sampled.ids[0]!;
}

/**
 * Forbids a third of the tokens, by those before, and is done after as many as its source says; of nine it fails at the fifth, of none at once,
 * naming its call. Some masks come late. Masks behind guesses are there for the first two or for all.
 */
function countingConstraint(spec: ConstraintSpec, onGuess: () => void): TokenConstraint {
  const [count, callId] = spec.source.split(" ");
  const accepted: number[] = [];
  let left = Number(count);
  let foreseen: number[] = [];
  /** Times that the next mask is asked for before it is there. */
  let delay = 0;
  const fails = (numLeft: number): boolean => count === "0" || (count === "9" && numLeft === 5);
  return {
    isReady: () => delay === 0 || --delay === 0,
    isQuick: () => count !== "3",
    fork: () => countingConstraint(spec, onGuess),
    fillMask: (mask, numAhead = 0) => {
      if (fails(left - numAhead)) throw new Error(`mask of ${callId}`);
      assert.ok(numAhead <= foreseen.length);
      assert.equal(delay, 0, "asked for a mask that is not there");
      mask.set(maskBehind([...accepted, ...foreseen.slice(0, numAhead)]));
      return true;
    },
    foresee: (tokens, first, number) => {
      foreseen = [];
      const most = tokens[first]! % 2 === 0 ? 2 : number;
      for (let i = 0; i < Math.min(most, number); i++) {
        const token = tokens[first + i]!;
        if (!isAllowed([...accepted, ...foreseen], token) || left - i <= 1 || fails(left - i - 1)) break;
        foreseen.push(token);
      }
    },
    numForeseen: () => foreseen.length,
    accept: (token, isFollowed) => {
      if (!isAllowed(accepted, token)) return false;
      if (isFollowed) onGuess();
      accepted.push(token);
      left--;
      if (!isFollowed && Number(count) % 2 === 0) delay = token % 4;
      return true;
    },
    isDone: () => left <= 0,
    dispose: () => {},
  };
}

function isAllowed(accepted: readonly number[], token: number): boolean {
  return (token + accepted.length + 7 * (accepted.at(-1) ?? 0)) % 3 !== 0;
}

function maskBehind(accepted: readonly number[]): Int32Array {
  const mask = new Int32Array(2);
  for (let token = 0; token < VOCAB; token++) if (isAllowed(accepted, token)) mask[token >> 5]! |= 1 << (token & 31);
  return mask;
}

/** No layers: the device's tokens come from its slots alone. */
function modelOn(device: DelayedDevice, maxTokens: number): Model {
  const hidden = device.allocTensor(maxTokens, HIDDEN);
  const logits = device.allocTensor(5, VOCAB);
  return {
    spec: { hiddenSize: HIDDEN, vocabSize: VOCAB } as ModelSpec,
    hidden,
    logits,
    forward: () => {},
    computeLogits: (batch: StagedBatch, first: number, n: number) => {
      device.gatherLogitRows(hidden, hidden, batch, first, n);
      device.matmul(logits);
    },
  };
}
