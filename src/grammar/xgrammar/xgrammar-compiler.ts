// Structured output by xgrammar, as the engine sees it. The matcher runs in a thread of its own: a large grammar is compiled while
// steps go on, the next mask is made while the next step computes, and a matcher that crashes or hangs takes nothing with it.
// The thread starts with the first constraint.

import { Worker } from "node:worker_threads";
import { RequestError } from "../../core/errors.js";
import type { ConstraintCompiler, ConstraintSpec, TokenConstraint } from "../constraint.js";
import { grammarOf } from "../spec-grammar.js";
import type { TokenTexts } from "./instance.js";
import { FAILED, type FromMatcher, type ToMatcher } from "./matcher-messages.js";

/** A matcher that has not written a mask for so long has hung. */
const MASK_TIMEOUT_MS = 5000;
const CHECK_TIMEOUT_MS = 20_000;
const MAX_REMEMBERED = 256;
const MAX_DEATHS_IN_A_ROW = 3;

export class XGrammarCompiler implements ConstraintCompiler {
  readonly #vocabularyOf: () => TokenTexts;
  #vocabulary: TokenTexts | null = null;
  #stopIds: ReadonlySet<number> = new Set();
  #thread: Worker | null = null;
  readonly #live = new Map<number, XGrammarConstraint>();
  readonly #checks = new Map<number, (error: string | null) => void>();
  /** Whether a grammar can be used, by its text: null, or why not. Least recently checked first. */
  readonly #verdicts = new Map<string, string | null>();
  #numSent = 0;
  #numDeaths = 0; // since the thread last said something

  /** The vocabulary is asked for when the first constraint is. */
  constructor(vocabularyOf: () => TokenTexts) {
    this.#vocabularyOf = vocabularyOf;
  }

  async ready(spec: ConstraintSpec): Promise<void> {
    let ebnf: string;
    try {
      ebnf = grammarOf(spec);
    } catch {
      return; // compile() says what is wrong
    }
    if (this.#verdicts.has(ebnf)) return;
    const verdict = await this.#check(ebnf);
    if (this.#verdicts.size === MAX_REMEMBERED) this.#verdicts.delete(this.#verdicts.keys().next().value!);
    this.#verdicts.set(ebnf, verdict);
  }

  compile(spec: ConstraintSpec): TokenConstraint {
    const ebnf = grammarOf(spec);
    const reason = this.#verdicts.get(ebnf);
    if (reason !== undefined && reason !== null) throw new RequestError("invalid_grammar", { reason });
    const id = this.#numSent++;
    const shared = new Int32Array(new SharedArrayBuffer(4 + 4 * Math.ceil(this.#vocabularyNow().bytes.length / 32)));
    const constraint = new XGrammarConstraint(this, id, ebnf, shared, this.#stopIds);
    this.#live.set(id, constraint);
    this.send(constraint.openMessage());
    return constraint;
  }

  close(): void {
    this.#dropThread("the engine was closed");
  }

  send(message: ToMatcher): void {
    this.#threadNow().postMessage(message);
  }

  forget(id: number): void {
    if (!this.#live.delete(id)) return;
    this.#thread?.postMessage({ type: "close", id } satisfies ToMatcher);
  }

  /** The thread hangs or is gone: a new one takes up the answers under way, all but the one it failed on. */
  restart(culprit: number): void {
    this.#live.delete(culprit);
    this.#dropThread("the matcher hung");
    for (const constraint of this.#live.values()) this.send(constraint.openMessage());
  }

  #check(ebnf: string): Promise<string | null> {
    return new Promise((resolve) => {
      const seq = this.#numSent++;
      const timer = setTimeout(() => {
        this.#checks.delete(seq);
        this.restart(-1);
        resolve(`it takes longer than ${CHECK_TIMEOUT_MS / 1000} s to compile`);
      }, CHECK_TIMEOUT_MS);
      timer.unref();
      this.#checks.set(seq, (error) => {
        clearTimeout(timer);
        resolve(error);
      });
      this.send({ type: "check", seq, ebnf });
    });
  }

  #vocabularyNow(): TokenTexts {
    if (this.#vocabulary === null) {
      this.#vocabulary = this.#vocabularyOf();
      this.#stopIds = new Set(this.#vocabulary.stopIds);
    }
    return this.#vocabulary;
  }

  #threadNow(): Worker {
    if (this.#thread !== null) return this.#thread;
    const thread = new Worker(new URL("./matcher-thread.js", import.meta.url), { workerData: this.#vocabularyNow() });
    thread.unref(); // answers keep the process alive, not their matcher
    thread.on("message", ({ seq, error }: FromMatcher) => {
      this.#numDeaths = 0;
      this.#checks.get(seq)?.(error);
      this.#checks.delete(seq);
    });
    const onEnd = (): void => {
      if (this.#thread !== thread) return;
      this.#dropThread("the matcher ended unexpectedly");
      // A thread that cannot even start must not be started for ever.
      if (++this.#numDeaths > MAX_DEATHS_IN_A_ROW) {
        for (const constraint of this.#live.values()) constraint.fail();
        this.#live.clear();
      }
      for (const constraint of this.#live.values()) this.send(constraint.openMessage());
    };
    thread.on("error", onEnd);
    thread.on("exit", onEnd);
    this.#thread = thread;
    return thread;
  }

  #dropThread(reason: string): void {
    void this.#thread?.terminate();
    this.#thread = null;
    for (const answer of this.#checks.values()) answer(reason);
    this.#checks.clear();
  }
}

/** Never throws: an answer that cannot go on is left no token, so that its request ends and no other. */
class XGrammarConstraint implements TokenConstraint {
  readonly #compiler: XGrammarCompiler;
  readonly #id: number;
  readonly #ebnf: string;
  readonly #shared: Int32Array; // see matcher-messages.ts
  readonly #stopIds: ReadonlySet<number>;
  readonly #accepted: number[] = [];
  #isDone = false;

  constructor(compiler: XGrammarCompiler, id: number, ebnf: string, shared: Int32Array, stopIds: ReadonlySet<number>) {
    this.#compiler = compiler;
    this.#id = id;
    this.#ebnf = ebnf;
    this.#shared = shared;
    this.#stopIds = stopIds;
  }

  openMessage(): ToMatcher {
    return { type: "open", id: this.#id, ebnf: this.#ebnf, tokens: this.#accepted, shared: this.#shared };
  }

  fail(): void {
    Atomics.store(this.#shared, 0, FAILED);
  }

  fillMask(mask: Int32Array): boolean {
    if (this.#isDone) return false;
    if (this.#waitForMask()) mask.set(this.#shared.subarray(1));
    else mask.fill(0);
    return true;
  }

  accept(tokenId: number): boolean {
    if (this.#isDone || !this.#waitForMask()) return false;
    if (((this.#shared[1 + (tokenId >> 5)]! >>> (tokenId & 31)) & 1) === 0) return false;
    this.#accepted.push(tokenId);
    this.#isDone = this.#stopIds.has(tokenId);
    if (!this.#isDone) this.#compiler.send({ type: "accept", id: this.#id, token: tokenId });
    return true;
  }

  isDone(): boolean {
    return this.#isDone;
  }

  dispose(): void {
    this.#compiler.forget(this.#id);
  }

  /** Blocks until the mask after the accepted tokens is there; false when it never will be. */
  #waitForMask(): boolean {
    const expected = this.#accepted.length + 1;
    for (;;) {
      const version = Atomics.load(this.#shared, 0);
      if (version === expected) return true;
      if (version === FAILED) return false;
      if (Atomics.wait(this.#shared, 0, version, MASK_TIMEOUT_MS) === "timed-out") {
        this.fail();
        this.#compiler.restart(this.#id);
      }
    }
  }
}
