// The matcher's side of structured output: compiles grammars, follows answers, writes masks. One message after another. An
// instance that aborted is replaced, and answers that were in it are taken up again by replaying their tokens.

import { type TokenTexts, XGrammarInstance } from "./instance.js";
import { FAILED, type FromMatcher, type ToMatcher } from "./matcher-messages.js";
import { loadXGrammar, type MatcherHandle } from "./module.js";

interface Matching {
  readonly ebnf: string;
  readonly tokens: number[];
  readonly shared: Int32Array; // [1 + ceil(V / 32)]
  readonly mask: Int32Array; // a view of shared without its first element
  instance: XGrammarInstance;
  matcher: MatcherHandle;
}

export class MatcherService {
  readonly #vocabulary: TokenTexts;
  readonly #answers = new Map<number, Matching>();
  #instance: XGrammarInstance | null = null;

  constructor(vocabulary: TokenTexts) {
    this.#vocabulary = vocabulary;
  }

  /** Returns what to answer, if anything. Must have resolved before the next message is handled. */
  async handle(message: ToMatcher): Promise<FromMatcher | null> {
    const instance = await this.#ready();
    switch (message.type) {
      case "check":
        return { seq: message.seq, error: check(instance, message.ebnf) };
      case "open":
        this.#open(instance, message);
        return null;
      case "accept":
        this.#accept(instance, message.id, message.token);
        return null;
      case "close":
        this.#close(message.id);
        return null;
    }
  }

  async #ready(): Promise<XGrammarInstance> {
    if (this.#instance === null || this.#instance.isBroken)
      this.#instance = new XGrammarInstance(await loadXGrammar(), this.#vocabulary);
    return this.#instance;
  }

  #open(instance: XGrammarInstance, { id, ebnf, tokens, shared }: Extract<ToMatcher, { type: "open" }>): void {
    try {
      const matcher = replay(instance, ebnf, tokens);
      const answer = { ebnf, tokens: [...tokens], shared, mask: shared.subarray(1), instance, matcher };
      this.#answers.set(id, answer);
      publish(answer);
    } catch {
      fail(shared);
    }
  }

  #accept(instance: XGrammarInstance, id: number, token: number): void {
    const answer = this.#answers.get(id);
    if (answer === undefined) return; // it had failed
    try {
      if (answer.instance !== instance) {
        answer.instance = instance;
        answer.matcher = replay(instance, answer.ebnf, answer.tokens);
      }
      instance.guard(() => {
        if (!answer.matcher.AcceptToken(token, false)) throw new Error(`token ${token} is not allowed`);
      });
      answer.tokens.push(token);
      publish(answer);
    } catch {
      this.#answers.delete(id);
      fail(answer.shared);
    }
  }

  #close(id: number): void {
    const answer = this.#answers.get(id);
    this.#answers.delete(id);
    if (answer?.instance.isBroken === false) answer.matcher.delete();
  }
}

function check(instance: XGrammarInstance, ebnf: string): string | null {
  try {
    instance.createMatcher(ebnf).delete();
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

function replay(instance: XGrammarInstance, ebnf: string, tokens: readonly number[]): MatcherHandle {
  const matcher = instance.createMatcher(ebnf);
  for (const token of tokens) instance.guard(() => matcher.AcceptToken(token, false));
  return matcher;
}

function publish({ instance, matcher, mask, shared, tokens }: Matching): void {
  if (!matcher.IsTerminated()) instance.fillMask(matcher, mask);
  Atomics.store(shared, 0, tokens.length + 1);
  Atomics.notify(shared, 0);
}

function fail(shared: Int32Array): void {
  Atomics.store(shared, 0, FAILED);
  Atomics.notify(shared, 0);
}
