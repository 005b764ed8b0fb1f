// Structured output by xgrammar, in the engine's thread. An error inside the matcher aborts its WebAssembly instance: the one
// request fails, a spare instance takes over at once, and answers under way go on there by replaying their tokens.

import { RequestError } from "../../core/errors.js";
import type { ConstraintCompiler, ConstraintSpec, TokenConstraint } from "../constraint.js";
import { grammarOf } from "../grammar/spec-grammar.js";
import { type Vocabulary, XGrammarInstance } from "./instance.js";
import { loadXGrammar, type MatcherHandle, type XGrammarModule } from "./module.js";

export class XGrammarCompiler implements ConstraintCompiler {
  readonly #vocabularyOf: () => Vocabulary;
  #vocabulary: Vocabulary | null = null;
  #instance: XGrammarInstance | null = null;
  #spare: XGrammarModule | null = null;
  #loading: Promise<void> | null = null;

  /** The vocabulary is asked for when the first constraint is. */
  constructor(vocabularyOf: () => Vocabulary) {
    this.#vocabularyOf = vocabularyOf;
  }

  ready(): Promise<void> {
    if (this.#instance !== null && !this.#instance.isBroken) return Promise.resolve();
    this.#loading ??= this.#load();
    return this.#loading;
  }

  compile(spec: ConstraintSpec): TokenConstraint {
    const ebnf = grammarOf(spec);
    const constraint = new XGrammarConstraint(this, ebnf);
    try {
      constraint.start();
    } catch (error) {
      throw new RequestError("invalid_grammar", { reason: (error as Error).message });
    }
    return constraint;
  }

  /** The instance to use now: the present one, or the spare when that broke. */
  current(): XGrammarInstance {
    if (this.#instance?.isBroken === true && this.#spare !== null) {
      this.#instance = this.#makeInstance(this.#spare);
      this.#spare = null;
      void this.#loadSpare();
    }
    if (this.#instance === null || this.#instance.isBroken)
      throw new Error("the matcher is being restarted; try again");
    return this.#instance;
  }

  async #load(): Promise<void> {
    const module = this.#spare ?? (await loadXGrammar());
    this.#spare = null;
    this.#instance = this.#makeInstance(module);
    await this.#loadSpare();
    this.#loading = null;
  }

  #makeInstance(module: XGrammarModule): XGrammarInstance {
    this.#vocabulary ??= this.#vocabularyOf();
    return new XGrammarInstance(module, this.#vocabulary);
  }

  async #loadSpare(): Promise<void> {
    this.#spare ??= await loadXGrammar();
  }
}

/** Never throws once started: a matcher that cannot go on leaves no token, so that the one request ends and no other. */
class XGrammarConstraint implements TokenConstraint {
  readonly #compiler: XGrammarCompiler;
  readonly #ebnf: string;
  readonly #accepted: number[] = [];
  #instance: XGrammarInstance | null = null;
  #matcher: MatcherHandle | null = null;

  constructor(compiler: XGrammarCompiler, ebnf: string) {
    this.#compiler = compiler;
    this.#ebnf = ebnf;
  }

  /** Makes a matcher in the present instance and brings it to where this answer stands. */
  start(): void {
    this.#instance = this.#compiler.current();
    this.#matcher = this.#instance.createMatcher(this.#ebnf);
    for (const id of this.#accepted) this.#matcher.AcceptToken(id, false);
  }

  fillMask(mask: Int32Array): boolean {
    try {
      const matcher = this.#live();
      if (matcher.IsTerminated()) return false;
      this.#instance!.fillMask(matcher, mask);
    } catch {
      mask.fill(0);
    }
    return true;
  }

  accept(tokenId: number): boolean {
    try {
      const matcher = this.#live();
      const isAccepted = this.#instance!.guard(() => matcher.AcceptToken(tokenId, false));
      if (isAccepted) this.#accepted.push(tokenId);
      return isAccepted;
    } catch {
      return false;
    }
  }

  isDone(): boolean {
    return this.#instance?.isBroken === false && this.#matcher!.IsTerminated();
  }

  dispose(): void {
    if (this.#instance?.isBroken === false) this.#matcher?.delete();
    this.#matcher = null;
    this.#instance = null;
  }

  #live(): MatcherHandle {
    if (this.#instance === null || this.#instance.isBroken) this.start();
    return this.#matcher!;
  }
}
