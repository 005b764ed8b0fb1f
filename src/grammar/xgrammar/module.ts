// Loads the xgrammar matcher (WebAssembly) into this thread, as many separate instances as asked for. The package ships a UMD
// script marked as an ES module and opens its binding only behind promises, so its text is evaluated here as CommonJS with a
// few changes: its one dynamic import becomes a parameter, the binding is exported, its memory is bounded, and the binary comes from
// outside, compiled. The package is pinned because of it; a version without these places is refused. What it prints is kept: the last
// line before an abort says why.

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
  Rollback(numTokens: number): void;
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
const BINARY = /wasmBinaryFile="data:application\/octet-stream;base64,([^"]+)"/;
const CHANGES: readonly (readonly [string, string])[] = [
  ["await import('module')", "nodeModule"],
  ["getHeapMax=()=>2147483648", `getHeapMax=()=>${MAX_HEAP_MB * 2 ** 20}`],
  ["exports.default = index;", "exports.default = index; exports.binding = () => binding;"],
  [
    "getBinaryPromise(binaryFile).then(binary=>WebAssembly.instantiate(binary,imports))",
    "WebAssembly.instantiate(compiled,imports).then(instance=>({instance}))",
  ],
];

/** The matcher's code, which all threads share: compiling the binary takes a good part of a second, and is done once. */
export interface MatcherCode {
  readonly path: string;
  /** Of the script, without the binary. */
  readonly text: string;
  readonly binary: WebAssembly.Module;
}

let code: MatcherCode | Promise<MatcherCode> | null = null;

/** Once it is compiled, the code itself: who must not wait need not. */
export function matcherCode(): MatcherCode | Promise<MatcherCode> {
  code ??= compileCode().then((compiled) => {
    code = compiled;
    return compiled;
  });
  return code;
}

async function compileCode(): Promise<MatcherCode> {
  const path = createRequire(import.meta.url).resolve(PACKAGE);
  const whole = readFileSync(path, "utf8");
  const bytes = BINARY.exec(whole)?.[1];
  if (bytes === undefined) throw unknownVersion();
  let text = whole.replace(bytes, "");
  for (const [from, to] of CHANGES) {
    if (!text.includes(from)) throw unknownVersion();
    text = text.replace(from, to);
  }
  return { path, text, binary: await WebAssembly.compile(Buffer.from(bytes, "base64")) };
}

function unknownVersion(): Error {
  return new Error(`${PACKAGE} is of a version that this loader does not know`);
}

export async function loadXGrammar({ path, text, binary }: MatcherCode): Promise<XGrammarModule> {
  const require = createRequire(import.meta.url);
  const lines: string[] = [];
  const print = (...items: unknown[]): void => {
    lines.push(items.join(" "));
  };
  const exports = {} as PackageExports;
  const parameters = ["exports", "module", "require", "__filename", "nodeModule", "console", "compiled"];
  const evaluate = compileFunction(text, parameters, { filename: path });
  evaluate(exports, { exports }, require, path, { createRequire }, { log: print, warn: print, error: print }, binary);
  // The binding appears once anything was made.
  (await exports.Grammar.builtinJSONGrammar()).dispose();
  return { binding: exports.binding(), takeOutput: () => lines.splice(0) };
}
