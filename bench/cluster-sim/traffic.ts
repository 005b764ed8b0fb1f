// Traffic of the shape that public traces of language model services have, from a seed: bursts, a day, conversations that go on, and
// beginnings that many share.
//
//   arrivals     conversations in Gamma-distributed gaps (coefficient of variation 2), as BurstGPT found services to be; the rate of a day
//                rises and falls by 60 %
//   lengths      log-normal: prompts of about 1,000 tokens and answers of 129 at the median, as in Azure's conversation trace of 2023
//   beginnings   one of `numTemplates` system prompts, by Zipf's law; assumed
//   turns        3.5 on average, half a minute apart; each prompt is everything said before and something new; assumed

import type { Random } from "../../test/support/random.js";

export interface Turn {
  readonly conversation: number;
  readonly template: number;
  readonly templateTokens: number;
  readonly promptTokens: number;
  readonly answerTokens: number;
  /** What is said next, if anything, and how long after the answer. */
  readonly next: { readonly afterMs: number; readonly turn: Turn } | null;
}

export interface TrafficOptions {
  readonly numTemplates: number;
  /** Conversations in a second, over the day. */
  readonly conversationsPerSecond: number;
  readonly dayMs: number;
}

const MAX_PROMPT = 6000;
const MAX_ANSWER = 1500;

export class Traffic {
  readonly #options: TrafficOptions;
  readonly #uniform: () => number;
  readonly #templates: readonly { readonly weight: number; readonly tokens: number }[];
  readonly #totalWeight: number;
  #numConversations = 0;

  constructor(options: TrafficOptions, random: Random) {
    this.#options = options;
    this.#uniform = () => (random(2 ** 30) + 0.5) / 2 ** 30;
    this.#templates = Array.from({ length: options.numTemplates }, (_, i) => ({
      weight: 1 / (i + 1),
      tokens: Math.round(this.#logNormal(600, 0.7, 3000)),
    }));
    this.#totalWeight = this.#templates.reduce((sum, { weight }) => sum + weight, 0);
  }

  /** The first turns of all conversations of the day, by time. */
  *conversations(): Generator<{ readonly atMs: number; readonly turn: Turn }> {
    const { conversationsPerSecond, dayMs } = this.#options;
    for (let atMs = 0; ; ) {
      const rate = conversationsPerSecond * (1 + 0.6 * Math.sin((2 * Math.PI * atMs) / dayMs));
      atMs += (this.#gamma(0.25) / 0.25) * (1000 / rate);
      if (atMs >= dayMs) return;
      yield { atMs, turn: this.#conversation() };
    }
  }

  #conversation(): Turn {
    const conversation = this.#numConversations++;
    const template = this.#template();
    const templateTokens = this.#templates[template]!.tokens;
    const turns: { promptTokens: number; answerTokens: number }[] = [];
    let length = templateTokens;
    do {
      const promptTokens = length + Math.round(this.#logNormal(turns.length === 0 ? 300 : 80, 1, 2500));
      const answerTokens = Math.round(this.#logNormal(129, 0.9, MAX_ANSWER));
      if (promptTokens > MAX_PROMPT) break;
      turns.push({ promptTokens, answerTokens });
      length = promptTokens + answerTokens;
    } while (this.#uniform() < 1 - 1 / 3.5);
    let next: Turn["next"] = null;
    for (const turn of turns.reverse())
      next = {
        afterMs: -30_000 * Math.log(this.#uniform()),
        turn: { conversation, template, templateTokens, ...turn, next },
      };
    return next!.turn;
  }

  /** By Zipf's law. */
  #template(): number {
    let left = this.#uniform() * this.#totalWeight;
    let template = 0;
    while (template < this.#templates.length - 1 && left >= this.#templates[template]!.weight)
      left -= this.#templates[template++]!.weight;
    return template;
  }

  #logNormal(median: number, sigma: number, most: number): number {
    return Math.min(most, Math.max(1, median * Math.exp(sigma * this.#normal())));
  }

  #normal(): number {
    return Math.sqrt(-2 * Math.log(this.#uniform())) * Math.cos(2 * Math.PI * this.#uniform());
  }

  /** Marsaglia and Tsang's method; shapes below 1 by the usual power. */
  #gamma(shape: number): number {
    if (shape < 1) return this.#gamma(shape + 1) * this.#uniform() ** (1 / shape);
    const d = shape - 1 / 3;
    const c = 1 / Math.sqrt(9 * d);
    for (;;) {
      const x = this.#normal();
      const v = (1 + c * x) ** 3;
      if (v > 0 && Math.log(this.#uniform()) < 0.5 * x * x + d - d * v + d * Math.log(v)) return d * v;
    }
  }
}

/** The tokens of a turn's prompt: those of its template, then those of its conversation, the answers among them. */
export function tokensOf({ conversation, template, templateTokens, promptTokens }: Turn): Int32Array {
  return Int32Array.from({ length: promptTokens }, (_, i) =>
    tokenAt(i < templateTokens ? template : 1e6 + conversation, i),
  );
}

export function tokenAt(stream: number, position: number): number {
  return (Math.imul(stream + 1, 0x9e3779b1) ^ Math.imul(position + 1, 0x85ebca6b)) & 0xffff;
}
