// One call as its router keeps it: what was asked, and every token that has come. Whatever happens to replicas, this is enough to go on.
//
//   sample 0   |  prompt  |  tokens that came from replica A  |  from B  |  ...
//   sample 1   |  prompt  |  from A  |  from C  |
//
// A call goes whole to its first replica. One that has begun goes on sample by sample, each with the tokens it has.

import { SAMPLING_DEFAULTS } from "../../core/sampling.js";
import { textFieldsOf } from "../../engine/client/relay.js";
import type { AddMessage } from "../../engine/messages.js";
import type { RequestTrace } from "../../engine/types.js";
import { type CallRequest, saltOf, type WireOutput } from "../bus/wire.js";
import { pageKeys } from "./prefix-map.js";
import type { Attempt } from "./router.js";

interface Sample {
  readonly tokens: number[];
  /** What stands for it in outputs; -1: nothing yet, or no longer. */
  handle: number;
  isOver: boolean;
  /** Its caller wants no more of it; how it fared is still to be said. */
  isAborting: boolean;
}

/** Losses after which a call is given up: without a token in between, and in all. A request that kills replicas must not kill them all. */
const MAX_LOST_IN_A_ROW = 3;
const MAX_LOST = 10;

export class RoutedCall {
  readonly message: AddMessage;
  readonly samples: readonly Sample[];
  readonly adapter: NonNullable<CallRequest["adapter"]> | null;
  readonly startMs = performance.now();
  /** Of the replica that it went to: once it has begun, the same bits come from its like only. */
  identity = "";
  /** A prefill replica was asked to compute its prompt. */
  wasPrefilled = false;
  /** Replicas that would not take it. */
  readonly refusedBy = new Set<string>();
  /** Where it is being served, and which sample of it; -1: all. */
  readonly attempts = new Map<Attempt, number>();
  /** Since when it has no replica. */
  waitingSinceMs = this.startMs;
  readonly #keys = new Map<number, readonly number[]>(); // by page size
  #hasScores = false;
  #numLost = 0;
  #numLostInARow = 0;
  #firstTokenMs: number | null = null;

  constructor(message: AddMessage, adapter: CallRequest["adapter"] | null = null) {
    this.message = message;
    this.adapter = adapter ?? null;
    const numSamples = message.kind === "generate" ? message.sampling.n : 1;
    this.samples = Array.from({ length: numSamples }, () => ({
      tokens: [],
      handle: -1,
      isOver: false,
      isAborting: false,
    }));
  }

  get isOver(): boolean {
    return this.samples.every(({ isOver }) => isOver);
  }

  get hasBegun(): boolean {
    return this.#firstTokenMs !== null;
  }

  /** Prompt, and the longest that may come. */
  get mostTokens(): number {
    return this.message.prompt.length + this.message.sampling.maxTokens;
  }

  /** Tokens that have come, of all samples. */
  get numGiven(): number {
    return this.samples.reduce((sum, { tokens }) => sum + tokens.length, 0);
  }

  /** The names of the prompt's pages, for replicas whose pages have this size. */
  keysFor(pageSize: number): readonly number[] {
    const { prompt, salt, media } = this.message;
    const ownSalt = saltOf(salt, this.adapter ?? undefined);
    const keys = this.#keys.get(pageSize) ?? pageKeys(prompt, ownSalt, pageSize, media);
    this.#keys.set(pageSize, keys);
    return keys;
  }

  /** What replicas are to be asked for now, of `only` this sample or of all (-1). */
  requests(only: number): CallRequest[] {
    const { kind, prompt, sampling, priority, salt, client = "", constraint, speculation } = this.message;
    const ids: number[] = [];
    for (let i = 0; i < prompt.length; i++) ids.push(prompt[i]!); // four times as fast as Array.from
    const asked = {
      type: "add",
      kind,
      prompt: ids,
      priority,
      salt,
      client,
      constraint,
      ...(speculation === undefined ? {} : { speculation }),
      ...(this.adapter === null ? {} : { adapter: this.adapter }),
      ...textFieldsOf(this.message),
    } as const;
    if (!this.hasBegun) return [{ ...asked, sampling, resumed: null }];
    const rest = { ...sampling, n: 1, promptLogprobs: this.#hasScores ? null : sampling.promptLogprobs };
    return this.samples.flatMap(({ tokens, isOver }, index) => {
      if (isOver || (only >= 0 && index !== only)) return [];
      return [{ ...asked, sampling: rest, resumed: { index, tokens: [...tokens] } }];
    });
  }

  /** Computes the prompt and no more. */
  prefillRequest(): CallRequest {
    const { prompt, priority, salt, client = "" } = this.message;
    const sampling = { ...SAMPLING_DEFAULTS, temperature: 0, seed: 0, maxTokens: 0 };
    const asked = { type: "add", kind: "generate", priority, salt, client, constraint: null, resumed: null } as const;
    const own = this.adapter === null ? {} : { adapter: this.adapter };
    return { ...asked, ...own, prompt: Array.from(prompt), sampling };
  }

  /** What came from a replica. null: it is not for us any more. "gap": something before it was lost. */
  take(wire: WireOutput): WireOutput | "gap" | null {
    if (wire.error !== undefined) return wire;
    const { index = 0, tokens = [] } = wire;
    const sample = this.samples[index];
    if (sample === undefined || sample.isOver || wire.at < sample.tokens.length) return null;
    if (wire.at > sample.tokens.length) return "gap";
    for (const token of tokens) sample.tokens.push(token);
    if (tokens.length > 0) {
      this.#firstTokenMs ??= performance.now();
      this.#numLostInARow = 0;
    }
    if (wire.promptLogprobs !== undefined) this.#hasScores = true;
    if (wire.finishReason === undefined) return wire;
    sample.isOver = true;
    return { ...wire, trace: this.#trace(wire.trace) };
  }

  /** A replica that served it is gone. false: that was one too many. */
  lose(): boolean {
    this.#numLost++;
    return ++this.#numLostInARow <= MAX_LOST_IN_A_ROW && this.#numLost <= MAX_LOST;
  }

  get numLost(): number {
    return this.#numLost;
  }

  /** The end of a sample that its caller has aborted, when no replica is left to say it. */
  endOf(index: number): WireOutput {
    this.samples[index]!.isOver = true;
    return { id: "", at: 0, index, finishReason: "abort", trace: this.#trace() };
  }

  /** How the call fared as seen from here: over all replicas, by this machine's clock. */
  #trace(last?: RequestTrace): RequestTrace {
    const nowMs = performance.now();
    const completionTokens = this.numGiven;
    const firstMs = this.#firstTokenMs ?? nowMs;
    const decodeMs = nowMs - firstMs;
    return {
      cachedTokens: 0,
      chunks: 0,
      steps: 0,
      preemptions: 0,
      drafts: 0,
      draftTokens: 0,
      acceptedTokens: 0,
      acceptedMs: 0,
      queuedMs: 0,
      ...last,
      promptTokens: this.message.prompt.length,
      completionTokens,
      timeToFirstTokenMs: firstMs - this.startMs,
      totalMs: nowMs - this.startMs,
      tokensPerSecond: decodeMs > 0 ? ((completionTokens - 1) * 1000) / decodeMs : 0,
    };
  }
}
