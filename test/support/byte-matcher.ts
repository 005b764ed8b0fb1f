// A matcher over a vocabulary of single bytes, for tests of grammars: whole texts are accepted or not, and random texts can be
// drawn from a constraint without a model.

import assert from "node:assert/strict";
import type { ConstraintSpec, TokenConstraint } from "../../src/grammar/constraint.js";
import { grammarOf } from "../../src/grammar/spec-grammar.js";
import { XGrammarInstance } from "../../src/grammar/xgrammar/instance.js";
import { loadXGrammar, matcherCode } from "../../src/grammar/xgrammar/module.js";

export const END = 256;
const VOCAB_SIZE = 257;

export const BYTE_VOCABULARY = {
  bytes: [...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)), new Uint8Array(0)],
  stopIds: [END],
};

export interface ByteCompiler {
  compile(spec: ConstraintSpec): TokenConstraint;
}

/** Compiles on this thread, so that a test of thousands of texts need not wait for another. */
export async function byteCompiler(): Promise<ByteCompiler> {
  const instance = new XGrammarInstance(await loadXGrammar(await matcherCode()), BYTE_VOCABULARY);
  return {
    compile: (spec) => {
      const matcher = instance.createMatcher(grammarOf(spec));
      return {
        isReady: () => true,
        fork: () => assert.fail("not here"),
        fillMask: (mask) => {
          instance.fillMask(matcher, mask);
          return true;
        },
        accept: (id) => matcher.AcceptToken(id, false),
        isDone: () => matcher.IsTerminated(),
        dispose: () => matcher.delete(),
      };
    },
  };
}

/** The same constraint for who can wait: every call waits until its answer is there. */
export function waiting(constraint: TokenConstraint): TokenConstraint {
  const pause = new Int32Array(new SharedArrayBuffer(4));
  const settled = (): TokenConstraint => {
    while (!constraint.isReady()) Atomics.wait(pause, 0, 0, 1);
    return constraint;
  };
  return {
    isReady: () => true,
    fillMask: (mask) => settled().fillMask(mask),
    accept: (id) => settled().accept(id),
    isDone: () => constraint.isDone(),
    fork: () => waiting(settled().fork()),
    dispose: () => constraint.dispose(),
  };
}

/** Whether the constraint takes exactly this text. */
export function accepts(compiler: ByteCompiler, spec: ConstraintSpec, text: string): boolean {
  const constraint = compiler.compile(spec);
  try {
    for (const byte of new TextEncoder().encode(text)) if (!constraint.accept(byte)) return false;
    return constraint.accept(END);
  } finally {
    constraint.dispose();
  }
}

/** A random text of the constraint's, or null when it did not end within `maxBytes`. */
export function draw(constraint: TokenConstraint, random: () => number, maxBytes = 4000): string | null {
  const mask = new Int32Array(Math.ceil(VOCAB_SIZE / 32));
  const bytes: number[] = [];
  while (bytes.length < maxBytes) {
    constraint.fillMask(mask);
    const allowed: number[] = [];
    for (let id = 0; id < VOCAB_SIZE; id++) if ((mask[id >> 5]! >>> (id & 31)) & 1) allowed.push(id);
    // Ends and quotes are as likely as all else together, or free strings would hardly end.
    const closing = allowed.filter((id) => id === END || id === 0x22 || id === 0x7d || id === 0x5d);
    const pool = closing.length > 0 && random() < 0.3 ? closing : allowed;
    const id = pool[Math.floor(random() * pool.length)]!;
    if (id === undefined) throw new Error(`no byte may follow ${new TextDecoder().decode(Uint8Array.from(bytes))}`);
    if (!constraint.accept(id)) throw new Error(`byte ${id} was offered and then refused`);
    if (id === END) return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes));
    bytes.push(id);
  }
  return null;
}

/** A small generator with a fixed seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
