// Guesses without a model: what came after these tokens the last time they occurred, in the request itself or in earlier answers of its
// client. Answers that repeat their prompt (edits, summaries, code) or each other (agents, JSON) repeat it for many tokens.
//
//   request    ... the quick brown fox jumps over | the quick brown | ?
//                  `----- match ----' `- guesses       `- match -'
//
// A request may say what its answer will be like (`prediction`): a text of its own to find guesses in, as the history is.
//
// Where nothing matches there is no guess. How many there are is decided by how often such guesses were right (acceptance.ts) and by what the
// step costs without them (step-worth.ts).

import { RecentMap } from "../core/recent-map.js";
import type { Request } from "../core/request.js";
import { Acceptance } from "./acceptance.js";
import { AnswerHistory } from "./answer-history.js";
import type { Drafter } from "./drafter.js";
import type { StepWorth } from "./step-worth.js";
import { TokenIndex } from "./token-index.js";

export interface LookupOptions {
  /** Tokens that must agree. */
  readonly minMatch: number;
  /** More are not compared. */
  readonly maxMatch: number;
  /** Tokens of earlier answers that are kept for each client, rounded up to a power of two; 0: none. */
  readonly historyTokens: number;
}

/** Clients whose answers are kept: the last ones served. */
const MAX_CLIENTS = 64;
/** A row leaves the overlap of steps only for guesses that are likelier right than wrong. */
const LIKELY = 0.5;

/** What is known of one request. */
interface Lookups {
  readonly index: TokenIndex;
  /** Earlier answers, and what it is to be like: texts of others. */
  readonly texts: readonly AnswerHistory[];
  /** Of guesses from its own tokens, and from other texts. */
  readonly own: Acceptance;
  readonly other: Acceptance;
  /** The text of the match behind the last guesses; null: its own tokens. */
  text: AnswerHistory | null;
  matchLen: number;
}

export class LookupDrafter implements Drafter {
  readonly #options: LookupOptions;
  readonly #lookups = new Map<Request, Lookups>();
  /** By salt and client: nobody's guesses come from answers of somebody else. */
  readonly #histories = new RecentMap<string, AnswerHistory>(MAX_CLIENTS);

  constructor(options: LookupOptions) {
    this.#options = options;
  }

  propose(request: Request, most: number, worth: StepWorth): number {
    const lookups = this.#look(request);
    const { matchLen } = lookups;
    if (matchLen === 0) return 0;
    const acceptance = acceptanceOf(lookups);
    const rate = acceptance.rateOf(matchLen);
    let probability = rate;
    let count = 0;
    while (count < most && worth.pays(probability)) {
      const token = guessAt(lookups, request, count);
      if (token < 0) break;
      request.tokens[request.numTokens + count++] = token;
      worth.add(probability);
      probability *= rate;
    }
    if (count === 0) acceptance.skip(matchLen);
    return count;
  }

  foresees(request: Request): boolean {
    const lookups = this.#look(request);
    const { matchLen } = lookups;
    if (matchLen === 0) return false;
    const acceptance = acceptanceOf(lookups);
    if (acceptance.rateOf(matchLen) >= LIKELY) return true;
    acceptance.skip(matchLen);
    return false;
  }

  observe(request: Request, numDrafted: number, numAccepted: number): void {
    const lookups = this.#lookups.get(request);
    if (lookups === undefined) return;
    acceptanceOf(lookups).observe(lookups.matchLen, numDrafted, numAccepted);
  }

  end(request: Request): void {
    this.#lookups.delete(request);
    const history = request.sharesAnswers ? this.#historyOf(request) : null;
    // With the prompt's last tokens: by them the beginning of the next answer is found.
    const first = Math.max(0, request.promptLen - this.#options.minMatch);
    if (history !== null && request.numGenerated > 0) history.add(request.tokens, first, request.numTokens);
  }

  /** The longest match of the request's last tokens, in itself or in other texts. */
  #look(request: Request): Lookups {
    const lookups = this.#lookups.get(request) ?? this.#begin(request);
    const { index, texts } = lookups;
    const { tokens, numTokens } = request;
    const { maxMatch } = this.#options;
    index.extend(tokens, numTokens);
    index.find(tokens, tokens, numTokens, maxMatch);
    lookups.text = null;
    lookups.matchLen = index.matchLen;
    for (let i = 0; i < texts.length && lookups.matchLen < maxMatch; i++) {
      const text = texts[i]!;
      text.index.find(text.tokens, tokens, numTokens, maxMatch);
      if (text.index.matchLen <= lookups.matchLen) continue;
      lookups.text = text;
      lookups.matchLen = text.index.matchLen;
    }
    return lookups;
  }

  #begin(request: Request): Lookups {
    const lookups: Lookups = {
      index: new TokenIndex(this.#options.minMatch),
      texts: [this.#predictionOf(request), request.sharesAnswers ? this.#historyOf(request) : null].filter(isText),
      own: new Acceptance(),
      other: new Acceptance(),
      text: null,
      matchLen: 0,
    };
    this.#lookups.set(request, lookups);
    return lookups;
  }

  /** Behind the prompt's last tokens, by which its beginning is found. null: nobody has said. */
  #predictionOf({ prediction, tokens, promptLen }: Request): AnswerHistory | null {
    if (prediction === null) return null;
    const { minMatch } = this.#options;
    const first = Math.max(0, promptLen - minMatch);
    const text = Int32Array.from([...tokens.subarray(first, promptLen), ...prediction]);
    const history = new AnswerHistory(minMatch, 2 ** Math.ceil(Math.log2(text.length + 1)));
    history.add(text, 0, text.length);
    return history;
  }

  /** null: none is kept. */
  #historyOf({ salt, client }: Request): AnswerHistory | null {
    const { minMatch, historyTokens } = this.#options;
    if (historyTokens === 0) return null;
    const key = JSON.stringify([salt, client]);
    const history = this.#histories.get(key) ?? new AnswerHistory(minMatch, 2 ** Math.ceil(Math.log2(historyTokens)));
    this.#histories.set(key, history);
    return history;
  }
}

/** What came at place `i` after the match; -1: nothing. Within the request this may be one of the guesses before it: text that goes round. */
function guessAt({ text, index }: Lookups, { tokens }: Request, i: number): number {
  return text === null ? tokens[index.matchEnd + i]! : text.at(text.index.matchEnd + i);
}

function acceptanceOf({ text, own, other }: Lookups): Acceptance {
  return text === null ? own : other;
}

function isText(text: AnswerHistory | null): text is AnswerHistory {
  return text !== null;
}
