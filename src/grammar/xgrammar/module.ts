// Loads the xgrammar matcher (WebAssembly) into this thread, as many separate instances as asked for. The package ships a UMD
// script marked as an ES module and opens its binding only behind promises, so its text is evaluated here as CommonJS with a
// few changes: its one dynamic import becomes a parameter, the binding is exported, and its memory is bounded. The package is
// pinned because of it; a version without these places is refused. What it prints is kept: the last line before an abort says why.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { compileFunction } from "node:vm";

/** An object of the binding; it lives until deleted. */
export interface Handle {
  delete(): void;
}

export interface MatcherHandle extends Handle {
  AcceptToken(id: number, verbose: boolean): boolean;
  GetNextTokenBitmask(vocabSize: number): Handle;
  IsTerminated(): boolean;
}

export interface CompilerHandle extends Handle {
  CompileGrammar(grammar: Handle): Handle;
}

/** The part of the binding that is used. */
export interface Binding {
  readonly Grammar: { FromEBNF(text: string, root: string): Handle };
  readonly TokenizerInfo: new (
    vocab: Handle,
    kind: "RAW",
    size: number,
    stopIds: Handle,
    prependSpace: boolean,
  ) => Handle;
  readonly GrammarCompiler: new (info: Handle, threads: number, isCached: boolean) => CompilerHandle;
  readonly GrammarMatcher: new (
    compiled: Handle,
    stopIds: Handle | undefined,
    endsWithoutStop: boolean,
    rollback: number,
  ) => MatcherHandle;
  vecStringFromJSArray(items: readonly Uint8Array[]): Handle;
  vecIntFromJSArray(items: readonly number[]): Handle;
  vecIntToView(vector: Handle): Int32Array;
}

export interface XGrammarModule {
  readonly binding: Binding;
  /** Lines printed since the last call. */
  takeOutput(): string[];
}

interface PackageExports {
  Grammar: { builtinJSONGrammar(): Promise<{ dispose(): void }> };
  binding(): Binding;
}

/** A grammar that needs more fails alone. */
export const MAX_HEAP_MB = 512;

const PACKAGE = "@mlc-ai/web-xgrammar";
const CHANGES: readonly (readonly [string, string])[] = [
  ["await import('module')", "nodeModule"],
  ["getHeapMax=()=>2147483648", `getHeapMax=()=>${MAX_HEAP_MB * 2 ** 20}`],
  ["exports.default = index;", "exports.default = index; exports.binding = () => binding;"],
];

export async function loadXGrammar(): Promise<XGrammarModule> {
  const require = createRequire(import.meta.url);
  const path = require.resolve(PACKAGE);
  let text = readFileSync(path, "utf8");
  for (const [from, to] of CHANGES) {
    if (!text.includes(from)) throw new Error(`${PACKAGE} is of a version that this loader does not know`);
    text = text.replace(from, to);
  }
  const lines: string[] = [];
  const print = (...items: unknown[]): void => {
    lines.push(items.join(" "));
  };
  const exports = {} as PackageExports;
  const evaluate = compileFunction(text, ["exports", "module", "require", "__filename", "nodeModule", "console"], {
    filename: path,
  });
  evaluate(exports, { exports }, require, path, { createRequire }, { log: print, warn: print, error: print });
  // The binding appears once anything was made.
  (await exports.Grammar.builtinJSONGrammar()).dispose();
  return { binding: exports.binding(), takeOutput: () => lines.splice(0) };
}
