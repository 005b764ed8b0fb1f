// A day's requests from a seed, in the shape of trace-shape.ts: people who talk, and programs that ask the same with other data.
//
//   people     |  the chat's opening  |  question  |  answer  |  question  |  ...      each turn begins with all that was said before
//   programs   |  the application's text  |  its own part  |

import type { Random } from "../../test/support/random.js";
import * as shape from "./trace-shape.js";

export interface Turn {
  /** Whose tokens the prompt begins with (many have them in common), and how many they are; the rest is this conversation's alone. */
  readonly opening: number;
  readonly openingTokens: number;
  readonly conversation: number;
  readonly promptTokens: number;
  readonly answerTokens: number;
  /** What is said next, if anything, and how long after the answer. */
  readonly next: { readonly afterMs: number; readonly turn: Turn } | null;
}

export interface TrafficOptions {
  /** Over the day. */
  readonly requestsPerSecond: number;
  readonly dayMs: number;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** What a replica's context has room for. */
const MAX_TOKENS = 8000;
const CHAT = 0; // the opening of the chat; those of applications follow

export class Traffic {
  readonly #options: TrafficOptions;
  readonly #uniform: () => number;
  readonly #applications: readonly number[]; // tokens of their texts
  readonly #popularity: Float64Array; // sums of the weights
  #numConversations = 0;

  constructor(options: TrafficOptions, random: Random) {
    this.#options = options;
    this.#uniform = () => (random(2 ** 30) + 0.5) / 2 ** 30;
    this.#applications = Array.from({ length: shape.NUM_APPLICATIONS }, () =>
      Math.ceil(shape.APPLICATION_SHARE * this.#draw(shape.PROMPT_TOKENS)),
    );
    let sum = 0;
    this.#popularity = Float64Array.from(this.#applications, (_, i) => {
      sum += 1 / (i + 1);
      return sum;
    });
  }

  /** The first turns of all conversations of the day, by time: in each minute a Poisson process. */
  *conversations(): Generator<{ readonly atMs: number; readonly turn: Turn }> {
    const { requestsPerSecond, dayMs } = this.#options;
    const meanHour = shape.HOURS.reduce((sum, rate) => sum + rate, 0) / shape.HOURS.length;
    // Chats bring more than one request each: of all first turns, this many are of chats.
    const chatsPerRequest = shape.CHAT_SHARE / shape.TURNS;
    const firstsPerRequest = chatsPerRequest + (1 - shape.CHAT_SHARE);
    let endOfMinute = 0;
    let factor = 1;
    for (let atMs = 0; ; ) {
      if (atMs >= endOfMinute) {
        endOfMinute = (Math.floor(atMs / MINUTE_MS) + 1) * MINUTE_MS;
        factor = this.#gamma(shape.MINUTE_VARIATION ** -2) * shape.MINUTE_VARIATION ** 2;
      }
      const rate = (requestsPerSecond * firstsPerRequest * factor * rateAt(atMs)) / meanHour;
      atMs -= (1000 * Math.log(this.#uniform())) / rate;
      if (atMs >= dayMs) return;
      const isChat = this.#uniform() < chatsPerRequest / firstsPerRequest;
      yield { atMs, turn: isChat ? this.#chat() : this.#call() };
    }
  }

  #call(): Turn {
    const application = this.#application();
    const openingTokens = this.#applications[application]!;
    const own = (1 - shape.APPLICATION_SHARE) * this.#draw(shape.PROMPT_TOKENS);
    return {
      opening: 1 + application,
      openingTokens,
      conversation: this.#numConversations++,
      promptTokens: openingTokens + Math.ceil(own),
      answerTokens: Math.round(this.#draw(shape.ANSWER_TOKENS)),
      next: null,
    };
  }

  #chat(): Turn {
    const conversation = this.#numConversations++;
    const turns: { promptTokens: number; answerTokens: number }[] = [];
    let length = Math.max(shape.CHAT_OPENING_TOKENS + 8, this.#draw(shape.PROMPT_TOKENS));
    do {
      const answerTokens = Math.round(this.#draw(shape.ANSWER_TOKENS));
      if (length + answerTokens > MAX_TOKENS) break;
      turns.push({ promptTokens: Math.round(length), answerTokens });
      const { median, sigma } = shape.QUESTION_TOKENS;
      length += answerTokens + this.#logNormal(median, sigma);
    } while (this.#uniform() < 1 - 1 / shape.TURNS);
    let next: Turn["next"] = null;
    for (const turn of turns.reverse()) {
      const { medianMs, sigma } = shape.TURN_GAP;
      next = {
        afterMs: this.#logNormal(medianMs, sigma),
        turn: { opening: CHAT, openingTokens: shape.CHAT_OPENING_TOKENS, conversation, ...turn, next },
      };
    }
    return next!.turn;
  }

  /** By Zipf's law. */
  #application(): number {
    const sums = this.#popularity;
    const sought = this.#uniform() * sums.at(-1)!;
    let [low, high] = [0, sums.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle]! < sought) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #draw({ shares, values }: shape.Quantiles): number {
    const share = this.#uniform() * shares.at(-1)!;
    const i = shares.findIndex((above) => above > share);
    const part = (share - shares[i - 1]!) / (shares[i]! - shares[i - 1]!);
    return values[i - 1]! + part * (values[i]! - values[i - 1]!);
  }

  #logNormal(median: number, sigma: number): number {
    return median * Math.exp(sigma * this.#normal());
  }

  #normal(): number {
    return Math.sqrt(-2 * Math.log(this.#uniform())) * Math.cos(2 * Math.PI * this.#uniform());
  }

  /** Marsaglia and Tsang's method, for shapes of at least 1. */
  #gamma(shapeParameter: number): number {
    const d = shapeParameter - 1 / 3;
    const c = 1 / Math.sqrt(9 * d);
    for (;;) {
      const x = this.#normal();
      const v = (1 + c * x) ** 3;
      if (v > 0 && Math.log(this.#uniform()) < 0.5 * x * x + d - d * v + d * Math.log(v)) return d * v;
    }
  }
}

/** Between full hours in a straight line; the day begins again after its end. */
function rateAt(atMs: number): number {
  const hour = atMs / HOUR_MS;
  const before = Math.floor(hour);
  const at = (i: number): number => shape.HOURS[i % shape.HOURS.length]!;
  return at(before) + (hour - before) * (at(before + 1) - at(before));
}

/** The tokens of a turn's prompt: those of its opening, then those of its conversation, the answers among them. */
export function tokensOf({ conversation, opening, openingTokens, promptTokens }: Turn): Int32Array {
  const tokens = new Int32Array(promptTokens);
  for (let i = 0; i < openingTokens; i++) tokens[i] = tokenAt(opening, i);
  for (let i = openingTokens; i < promptTokens; i++) tokens[i] = tokenAt(FIRST_CONVERSATION + conversation, i);
  return tokens;
}

export const FIRST_CONVERSATION = 1e6;

export function tokenAt(stream: number, position: number): number {
  return (Math.imul(stream + 1, 0x9e3779b1) ^ Math.imul(position + 1, 0x85ebca6b)) & 0x7fffffff;
}
