// One instance of the matcher with the model's vocabulary in it: compiles grammars and makes matchers. After a trap its memory
// cannot be trusted; the compiler beside (xgrammar-compiler.ts) then puts a fresh instance in its place.

import { type CompilerHandle, type Handle, MAX_HEAP_MB, type MatcherHandle, type XGrammarModule } from "./module.js";
import type { TokenTexts } from "./token-texts.js";

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

  /** Whether any token may come next. */
  allowsAny(matcher: MatcherHandle): boolean {
    const mask = new Int32Array(Math.ceil(this.#vocabSize / 32));
    this.fillMask(matcher, mask);
    return mask.some((word) => word !== 0);
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
  if (fatal === undefined) return trapReason(error);
  return fatal.replace(/^\[FATAL\] \S+:\d+: /, "").replace(/^Check failed: \(.*?\) is false: /, "");
}

/** A trap prints nothing; its own words speak of the machine, not of the grammar. */
function trapReason(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  if (/OOM|out of memory|memory access|enlarge memory/i.test(text))
    return `it needs more than ${MAX_HEAP_MB} MiB to compile`;
  if (/stack|recursion/i.test(text))
    return "it is nested too deeply, or a rule leads back to itself without reading anything";
  return text.startsWith("Aborted") ? "it is too large to compile" : text;
}
