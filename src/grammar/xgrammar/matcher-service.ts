// The matcher's side of structured output: compiles grammars, follows answers, writes masks. One message after another. An
// instance that aborted is replaced, and answers that were in it are taken up again by replaying their tokens.

import { PagodaError } from "../../core/errors.js";
import { systemThreadId, threadTimeMs } from "../../threads/thread-time.js";
import { grammarOf } from "../spec-grammar.js";
import { XGrammarInstance } from "./instance.js";
import { aheadState, FAILED, type FromMatcher, HEADER, type ToMatcher, type Verdict } from "./matcher-messages.js";
import { loadXGrammar, type MatcherCode, type MatcherHandle, matcherCode } from "./module.js";
import type { TokenTexts } from "./token-texts.js";

interface Matching {
  readonly ebnf: string;
  readonly tokens: number[];
  readonly shared: Int32Array; // see matcher-messages.ts
  readonly mask: Int32Array; // a view of shared without its header
  instance: XGrammarInstance;
  matcher: MatcherHandle;
}

export class MatcherService {
  readonly #vocabulary: TokenTexts;
  readonly #code: MatcherCode | Promise<MatcherCode>;
  readonly #answers = new Map<number, Matching>();
  #instance: XGrammarInstance | null = null;

  constructor(vocabulary: TokenTexts, code: MatcherCode | Promise<MatcherCode> = matcherCode()) {
    this.#vocabulary = vocabulary;
    this.#code = code;
  }

  /** An instance that can be trusted. */
  async ready(): Promise<XGrammarInstance> {
    if (this.#instance === null || this.#instance.isBroken)
      this.#instance = new XGrammarInstance(await loadXGrammar(await this.#code), this.#vocabulary);
    return this.#instance;
  }

  /** Returns what to answer, if anything. */
  handle(instance: XGrammarInstance, message: ToMatcher): FromMatcher | null {
    switch (message.type) {
      case "check":
        return { id: message.id, verdict: check(instance, message.spec) };
      case "open":
        this.#open(instance, message);
        return null;
      case "accept":
        this.#accept(instance, message.id, message.tokens);
        return null;
      case "foresee":
        this.#foresee(instance, message);
        return null;
      case "close":
        this.#close(message.id);
        return null;
    }
  }

  #open(instance: XGrammarInstance, { id, ebnf, tokens, shared }: Extract<ToMatcher, { type: "open" }>): void {
    try {
      const matcher = replay(instance, ebnf, tokens);
      const answer = { ebnf, tokens: [...tokens], shared, mask: shared.subarray(HEADER), instance, matcher };
      this.#answers.set(id, answer);
      publish(answer, performance.now());
    } catch {
      fail(shared);
    }
  }

  #accept(instance: XGrammarInstance, id: number, tokens: readonly number[]): void {
    const answer = this.#answers.get(id);
    if (answer === undefined) return; // it had failed
    const startMs = performance.now();
    try {
      moveTo(instance, answer);
      for (const token of tokens) {
        instance.guard(() => {
          if (!answer.matcher.AcceptToken(token, false)) throw new Error(`token ${token} is not allowed`);
        });
        answer.tokens.push(token);
      }
      publish(answer, startMs);
    } catch {
      this.#answers.delete(id);
      fail(answer.shared);
    }
  }

  /** An instance that aborts in it takes its answers up again with the next message. */
  #foresee(instance: XGrammarInstance, message: Extract<ToMatcher, { type: "foresee" }>): void {
    const answer = this.#answers.get(message.id);
    if (answer === undefined) return; // it had failed
    try {
      moveTo(instance, answer);
      foresee(answer, message);
    } catch {
      // Nobody waits for these masks.
    }
  }

  #close(id: number): void {
    const answer = this.#answers.get(id);
    this.#answers.delete(id);
    if (answer?.instance.isBroken === false) answer.matcher.delete();
  }
}

const threadId = systemThreadId();
const threadMs = (): number => threadTimeMs(threadId) ?? performance.now();

function check(instance: XGrammarInstance, spec: Extract<ToMatcher, { type: "check" }>["spec"]): Verdict {
  const startMs = threadMs();
  try {
    const ebnf = grammarOf(spec);
    const matcher = instance.createMatcher(ebnf);
    const canBegin = instance.allowsAny(matcher);
    matcher.delete();
    if (!canBegin) throw new Error("no text can begin under it");
    return { ok: true, ebnf, ms: threadMs() - startMs };
  } catch (error) {
    if (error instanceof PagodaError) return { ok: false, code: error.code, details: error.details };
    const reason = error instanceof RangeError ? "it is nested too deeply" : (error as Error).message;
    return { ok: false, code: "invalid_grammar", details: { reason } };
  }
}

function replay(instance: XGrammarInstance, ebnf: string, tokens: readonly number[]): MatcherHandle {
  const matcher = instance.createMatcher(ebnf);
  for (const token of tokens) instance.guard(() => matcher.AcceptToken(token, false));
  return matcher;
}

/** Takes an answer up again whose instance has been replaced. */
function moveTo(instance: XGrammarInstance, answer: Matching): void {
  if (answer.instance === instance) return;
  answer.instance = instance;
  answer.matcher = replay(instance, answer.ebnf, answer.tokens);
}

function foresee(
  { instance, matcher, mask }: Matching,
  { tokens, ahead, ticket }: Extract<ToMatcher, { type: "foresee" }>,
): void {
  let numTaken = 0;
  for (const token of tokens) {
    if (Atomics.load(ahead, 1) !== ticket) break;
    if (!instance.guard(() => matcher.AcceptToken(token, false))) break;
    if (matcher.IsTerminated()) {
      instance.guard(() => matcher.Rollback(1)); // nothing comes behind its end
      break;
    }
    const at = HEADER + numTaken * mask.length;
    instance.fillMask(matcher, ahead.subarray(at, at + mask.length));
    numTaken++;
    publishAhead(ahead, ticket, numTaken, false);
  }
  if (numTaken > 0) instance.guard(() => matcher.Rollback(numTaken));
  publishAhead(ahead, ticket, numTaken, true);
}

function publishAhead(ahead: Int32Array, ticket: number, numTaken: number, isLast: boolean): void {
  Atomics.store(ahead, 0, aheadState(ticket, numTaken, isLast));
  Atomics.notify(ahead, 0);
}

function publish({ instance, matcher, mask, shared, tokens }: Matching, startMs: number): void {
  if (!matcher.IsTerminated()) instance.fillMask(matcher, mask);
  shared[1] = Math.min(2 ** 30, (performance.now() - startMs) * 1000);
  Atomics.store(shared, 0, tokens.length + 1);
  Atomics.notify(shared, 0);
}

function fail(shared: Int32Array): void {
  Atomics.store(shared, 0, FAILED);
  Atomics.notify(shared, 0);
}
