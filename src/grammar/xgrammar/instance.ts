// One instance of the matcher with the model's vocabulary in it: compiles grammars and makes matchers. After a trap its memory
// cannot be trusted; the compiler beside (xgrammar-compiler.ts) then puts a fresh instance in its place.

import type { CompilerHandle, Handle, MatcherHandle, XGrammarModule } from "./module.js";

export interface TokenTexts {
  /** The bytes each token adds to the text; empty for special tokens, which no grammar can ask for. */
  readonly bytes: readonly Uint8Array[]; // [V]
  /** Tokens that end an answer; allowed where the grammar may end. */
  readonly stopIds: readonly number[];
}

const MAX_CACHED = 64;

export class XGrammarInstance {
  readonly #module: XGrammarModule;
  readonly #vocabSize: number;
  readonly #compiler: CompilerHandle;
  readonly #compiled = new Map<string, Handle>(); // by EBNF text, least recently used first
  isBroken = false;

  constructor(module: XGrammarModule, vocabulary: TokenTexts) {
    const { binding } = module;
    this.#module = module;
    this.#vocabSize = vocabulary.bytes.length;
    const info = new binding.TokenizerInfo(
      binding.vecStringFromJSArray(vocabulary.bytes),
      "RAW",
      vocabulary.bytes.length,
      binding.vecIntFromJSArray(vocabulary.stopIds),
      false,
    );
    this.#compiler = new binding.GrammarCompiler(info, 1, false);
  }

  createMatcher(ebnf: string): MatcherHandle {
    return this.guard(() => new this.#module.binding.GrammarMatcher(this.#compile(ebnf), undefined, false, -1));
  }

  fillMask(matcher: MatcherHandle, mask: Int32Array): void {
    this.guard(() => {
      const vector = matcher.GetNextTokenBitmask(this.#vocabSize);
      mask.set(this.#module.binding.vecIntToView(vector));
      vector.delete();
    });
  }

  /** Runs a call into the instance. Any throw out of it is an abort or a trap: the reason is what it printed last. */
  guard<T>(call: () => T): T {
    try {
      return call();
    } catch (error) {
      this.isBroken = true;
      throw new Error(reasonOf(this.#module.takeOutput(), error));
    }
  }

  #compile(ebnf: string): Handle {
    let compiled = this.#compiled.get(ebnf);
    if (compiled === undefined) {
      const grammar = this.#module.binding.Grammar.FromEBNF(ebnf, "root");
      compiled = this.#compiler.CompileGrammar(grammar);
      grammar.delete();
      this.#module.takeOutput();
      if (this.#compiled.size === MAX_CACHED) {
        const [oldest, handle] = this.#compiled.entries().next().value!;
        this.#compiled.delete(oldest);
        handle.delete();
      }
    } else this.#compiled.delete(ebnf);
    this.#compiled.set(ebnf, compiled);
    return compiled;
  }
}

/** "[FATAL] /path/file.cc:552: EBNF parser error at ..." -> "EBNF parser error at ..." */
function reasonOf(lines: readonly string[], error: unknown): string {
  const fatal = lines.findLast((line) => line.startsWith("[FATAL]"));
  if (fatal === undefined) return error instanceof Error ? error.message : String(error);
  return fatal.replace(/^\[FATAL\] \S+:\d+: /, "").replace(/^Check failed: \(.*?\) is false: /, "");
}
