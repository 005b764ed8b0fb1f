import assert from "node:assert/strict";
import { test } from "node:test";
import { accepts, byteCompiler, draw, END, seeded } from "../../../test/support/byte-matcher.js";
import { XGrammarCompiler } from "./xgrammar-compiler.js";

const DIGITS = { kind: "grammar", source: "root ::= [0-9]{3}" } as const;
const BAD = { kind: "grammar", source: 'root ::= "a" (' } as const;
/** Overflows the matcher's stack: a trap, after which its memory is lost. */
const TRAP = { kind: "grammar", source: `root ::= ${"(".repeat(20_000)}"a"${")".repeat(20_000)}` } as const;

test("the mask holds exactly the tokens that may come next", async () => {
  const compiler = await byteCompiler();
  const constraint = compiler.compile({ kind: "grammar", source: 'root ::= "a" [bc] | "d"' });
  const mask = new Int32Array(9);
  const allowed = (): number[] => {
    assert.ok(constraint.fillMask(mask));
    return Array.from({ length: 257 }, (_, id) => id).filter((id) => (mask[id >> 5]! >>> (id & 31)) & 1);
  };
  assert.deepEqual(allowed(), [0x61, 0x64]);
  assert.ok(constraint.accept(0x61));
  assert.deepEqual(allowed(), [0x62, 0x63]);
  assert.ok(!constraint.accept(0x61));
  assert.ok(constraint.accept(0x63));
  assert.deepEqual(allowed(), [END]);
  assert.ok(!constraint.isDone());
  assert.ok(constraint.accept(END));
  assert.ok(constraint.isDone());
  constraint.dispose();
});

test("tokens of many bytes, characters cut by tokens, special tokens", async () => {
  const encode = (text: string) => new TextEncoder().encode(text);
  const [first, second] = encode("é");
  const bytes = [
    encode("{"),
    encode('{"'),
    encode('"}'),
    Uint8Array.of(first!),
    Uint8Array.of(second!),
    encode(""),
    encode("é"),
  ];
  const compiler = new XGrammarCompiler(() => ({ bytes, stopIds: [5] }));
  await compiler.ready();
  const constraint = compiler.compile({ kind: "grammar", source: 'root ::= "{\\"é\\"}"' });
  for (const id of [1, 3, 4, 2, 5]) assert.ok(constraint.accept(id), String(id));
  constraint.dispose();
});

test("a grammar that cannot be parsed fails alone, and says where", async () => {
  const compiler = await byteCompiler();
  const other = compiler.compile(DIGITS);
  assert.ok(other.accept(0x31));
  assert.throws(() => compiler.compile(BAD), /The grammar cannot be used: EBNF parser error at line 1/);
  assert.ok(other.accept(0x32), "an answer under way goes on");
  assert.ok(!other.accept(0x61), "where it stood");
  assert.ok(other.accept(0x33) && other.accept(END));
  other.dispose();
});

test("traps and aborts in a row leave a compiler that works", async () => {
  const compiler = await byteCompiler();
  const other = compiler.compile(DIGITS);
  assert.ok(other.accept(0x31));
  for (let i = 0; i < 5; i++) {
    assert.throws(() => compiler.compile(i % 2 === 0 ? TRAP : BAD), /The grammar cannot be used/);
    await compiler.ready();
    assert.ok(accepts(compiler, DIGITS, "123"));
  }
  // Two before the spare is back: the second is told to try again, and ready() waits for the new one.
  assert.throws(() => compiler.compile(BAD));
  assert.throws(() => compiler.compile(BAD));
  assert.throws(() => compiler.compile(DIGITS), /being restarted/);
  await compiler.ready();
  assert.ok(accepts(compiler, DIGITS, "123"));
  assert.ok(other.accept(0x32) && other.accept(0x33) && other.accept(END), "replayed into the newest instance");
});

test("many grammars and answers leave no matcher behind", async () => {
  const compiler = await byteCompiler();
  const random = seeded(1);
  for (let i = 0; i < 300; i++) {
    const constraint = compiler.compile({ kind: "regex", source: `[a-f]{1,${(i % 100) + 1}}` });
    assert.ok(draw(constraint, random) !== null);
    constraint.dispose();
  }
});
