import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { BYTE_VOCABULARY, draw, END, seeded, waiting } from "../../../test/support/byte-matcher.js";
import type { ConstraintSpec, TokenConstraint } from "../constraint.js";
import { Lane } from "./lane.js";
import type { ToMatcher, Verdict } from "./matcher-messages.js";
import { type PackedTexts, packTexts, type TokenTexts } from "./token-texts.js";
import { XGrammarCompiler } from "./xgrammar-compiler.js";

const DIGITS = { kind: "grammar", source: "root ::= [0-9]{3}" } as const;
const BAD = { kind: "grammar", source: 'root ::= "a" (' } as const;
/** Overflows the matcher's stack: a trap, after which its memory is lost. */
const TRAP = { kind: "grammar", source: `root ::= ${"(".repeat(20_000)}"a"${")".repeat(20_000)}` } as const;

// Matcher threads do not keep a process alive, answers do: here, the test that waits for one.
let alive: NodeJS.Timeout;
beforeEach(() => {
  alive = setInterval(() => undefined, 1000);
});
afterEach(() => clearInterval(alive));

async function withCompiler(
  vocabulary: TokenTexts,
  body: (begin: (spec: ConstraintSpec) => Promise<TokenConstraint>) => Promise<void>,
): Promise<void> {
  const compiler = new XGrammarCompiler(() => vocabulary);
  try {
    await body(async (spec) => {
      await compiler.ready(spec);
      return waiting(compiler.compile(spec));
    });
  } finally {
    compiler.close();
  }
}

function acceptsAll(constraint: TokenConstraint, ids: readonly number[]): boolean {
  const all = ids.every((id) => constraint.accept(id));
  constraint.dispose();
  return all;
}

test("the mask holds exactly the tokens that may come next", async () => {
  await withCompiler(BYTE_VOCABULARY, async (begin) => {
    const constraint = await begin({ kind: "grammar", source: 'root ::= "a" [bc] | "d"' });
    const mask = new Int32Array(9);
    const allowed = (): number[] => {
      assert.ok(constraint.fillMask(mask));
      return Array.from({ length: 257 }, (_, id) => id).filter((id) => (mask[id >> 5]! >>> (id & 31)) & 1);
    };
    assert.deepEqual(allowed(), [0x61, 0x64]);
    assert.ok(constraint.accept(0x61));
    assert.deepEqual(allowed(), [0x62, 0x63]);
    assert.ok(!constraint.accept(0x61), "refused, and the answer stands where it stood");
    assert.ok(constraint.accept(0x63));
    assert.deepEqual(allowed(), [END]);
    assert.ok(!constraint.isDone());
    assert.ok(constraint.accept(END));
    assert.ok(constraint.isDone());
    constraint.dispose();
  });
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
  await withCompiler({ bytes, stopIds: [5] }, async (begin) => {
    assert.ok(acceptsAll(await begin({ kind: "grammar", source: 'root ::= "{\\"é\\"}"' }), [1, 3, 4, 2, 5]));
  });
});

test("a grammar that cannot be used fails alone and says why; answers under way go on where they stood", async () => {
  await withCompiler(BYTE_VOCABULARY, async (begin) => {
    const other = await begin(DIGITS);
    assert.ok(other.accept(0x31));
    for (let i = 0; i < 3; i++) {
      await assert.rejects(begin(BAD), /The grammar cannot be used: EBNF parser error at line 1/);
      await assert.rejects(begin(TRAP), /The grammar cannot be used/);
      assert.ok(acceptsAll(await begin(DIGITS), [0x31, 0x32, 0x33, END]));
    }
    assert.ok(!other.accept(0x61));
    assert.ok(acceptsAll(other, [0x32, 0x33, END]), "replayed into a fresh instance");
  });
});

test("a matcher that ends or hangs is started again, and only the answer it hung on ends", async () => {
  const compiler = new XGrammarCompiler(() => BYTE_VOCABULARY);
  await compiler.ready(DIGITS);
  const [a, b] = [waiting(compiler.compile(DIGITS)), waiting(compiler.compile(DIGITS))];
  assert.ok(a.accept(0x31) && b.accept(0x34));
  compiler.restart(); // as after a hang
  assert.ok(acceptsAll(a, [0x32, 0x33, END]));
  assert.ok(acceptsAll(b, [0x35, 0x36, END]));
  compiler.close();
});

test("many grammars and answers at once, each its own", async () => {
  await withCompiler(BYTE_VOCABULARY, async (begin) => {
    const random = seeded(1);
    const constraints = await Promise.all(
      Array.from({ length: 100 }, (_, i) => begin({ kind: "regex", source: `[a-f]{1,${i + 1}}` })),
    );
    for (const [i, constraint] of constraints.entries()) {
      const text = draw(constraint, random);
      assert.ok(text !== null && text.length >= 1 && text.length <= i + 1);
      constraint.dispose();
    }
  });
});

/** Takes tens of seconds to compile on a fast machine. */
const ENDLESS = "(.|..|...){3000}x".repeat(12);

test("a grammar that takes too long is refused by its field; others are compiled and followed meanwhile", async (t) => {
  const slow = { kind: "regex", source: ENDLESS, param: "guided_regex" } as const;
  const compiler = new XGrammarCompiler(() => BYTE_VOCABULARY, { checkMs: [300, 900] });
  t.after(() => compiler.close());
  await compiler.ready(DIGITS);
  const before = waiting(compiler.compile(DIGITS));
  assert.ok(before.accept(0x31));
  const hanging = compiler.ready(slow);
  const left = { kind: "grammar", source: 'root ::= "left"' } as const;
  let isWanted = true;
  const leaving = compiler.ready(left, { client: "", isWanted: () => isWanted });
  isWanted = false;
  await compiler.ready({ kind: "grammar", source: "root ::= [a-c]" });
  await leaving;
  assert.throws(() => compiler.compile(left), /before it was ready/, "what nobody waits for is not compiled");
  assert.ok(acceptsAll(before, [0x32, 0x33, END]), "answers under way go on");
  await hanging;
  assert.throws(() => compiler.compile(slow), {
    code: "invalid_grammar",
    param: "guided_regex",
    message: /longer than 0\.9 s/,
  });
  await compiler.ready(slow); // remembered: nothing is compiled again
});

test("a lane that hangs fails what it hangs on; its other jobs move on to a fresh thread", async (t) => {
  const lane = new Lane(() => packTexts(BYTE_VOCABULARY), 1500);
  t.after(() => lane.close());
  const check = (id: number, source: string): Promise<Verdict | string> =>
    new Promise((resolve) => {
      const spec = { kind: "regex", source } as const;
      lane.add(id, { openMessage: () => ({ type: "check", id, spec }), fail: resolve, answer: resolve });
    });
  const [quick, hanging, after] = await Promise.all([check(1, "a"), check(2, ENDLESS), check(3, "b")]);
  assert.equal(hanging, "it takes longer than 1.5 s");
  assert.ok(typeof quick === "object" && quick.ok && typeof after === "object" && after.ok);
});

test("a thread that dies takes the job it was at with it, and no other", async (t) => {
  const lane = new Lane(() => packTexts(BYTE_VOCABULARY), 60_000);
  t.after(() => lane.close());
  const job = (id: number, message: ToMatcher): Promise<Verdict | string> =>
    new Promise((resolve) => lane.add(id, { openMessage: () => message, fail: resolve, answer: resolve }));
  const check = (id: number) => job(id, { type: "check", id, spec: DIGITS });
  // Nowhere to say that it failed.
  const shared = null as unknown as Int32Array;
  const deadly = { type: "open", id: 5, ebnf: "root ::= (", tokens: [], shared } as const;
  const [before, died, after] = await Promise.all([check(3), job(5, deadly), check(7)]);
  assert.equal(died, "its matcher ended: it needs too much memory");
  for (const verdict of [before, after]) assert.ok(typeof verdict === "object" && verdict.ok);
});

test("a lane whose thread cannot start tries a few times, and then says so", async () => {
  let numStarts = 0;
  const lane = new Lane(() => {
    numStarts++;
    return {} as PackedTexts; // nothing that a thread could begin with
  }, 1500);
  const reason = await new Promise<string>((resolve) => {
    const openMessage = () => ({ type: "check", id: 1, spec: DIGITS }) as const;
    lane.add(1, { openMessage, fail: resolve });
  });
  lane.close();
  assert.equal(reason, "no matcher thread can be started");
  assert.equal(numStarts, 5);
});

test("further samples of an answer are answers of their own, ready at once", async () => {
  await withCompiler(BYTE_VOCABULARY, async (begin) => {
    const first = await begin({ kind: "grammar", source: 'root ::= "ab" | "cd"' });
    const second = first.fork();
    assert.ok(first.accept(0x61));
    assert.ok(second.accept(0x63), "the first's choice is not the second's");
    assert.ok(acceptsAll(first, [0x62, END]));
    assert.ok(acceptsAll(second, [0x64, END]));
  });
});

test("rules that lead nowhere are refused, not run", async () => {
  await withCompiler(BYTE_VOCABULARY, async (begin) => {
    for (const source of [
      "root ::= root",
      "root ::= a\na ::= b\nb ::= a",
      'root ::= root "a" | root',
      "root ::= nowhere",
      "",
    ])
      await assert.rejects(begin({ kind: "grammar", source }), { code: "invalid_grammar" }, source);
  });
});
