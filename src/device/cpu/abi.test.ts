import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { DRAW, DRAW_WORDS, ROW, ROW_WORDS } from "../../core/draws.js";
import { ABI, ABI_VERSION, type AbiType } from "./abi.js";

const header = readFileSync(new URL("../../../../native/cpu/include/pagoda_cpu.h", import.meta.url), "utf8");

/** The header's declarations: name -> [result, ...arguments] with every pointer as "pointer" or "const pointer". */
function declarations(): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const [, result, name, args] of header.matchAll(/^PG_API (\w+) (pg_\w+)\(([^)]*)\);$/gm)) {
    const types = args === "void" ? [] : args!.split(",").map((arg) => kindOf(arg.trim()));
    found.set(name!, [kindOf(result!), ...types]);
  }
  return found;
}

function kindOf(declaration: string): string {
  if (declaration.includes("*")) return declaration.startsWith("const ") ? "const pointer" : "pointer";
  const type = declaration.replace("const ", "").split(" ")[0]!;
  const kinds: Record<string, string> = { int32_t: "i32", int64_t: "i64", float: "f32", double: "f64" };
  return kinds[type] ?? `unknown ${type}`;
}

test("abi.ts mirrors the header: names, argument counts and types", () => {
  const expected = declarations();
  assert.deepEqual(Object.keys(ABI), [...expected.keys()]);
  for (const [name, types] of Object.entries(ABI)) {
    // Addresses are passed for both kinds.
    const declared = expected.get(name)!;
    const kinds = types.map((type: AbiType, i) => {
      if (type === "addr" && declared[i]?.endsWith("pointer")) return declared[i];
      return type === "in" ? "const pointer" : type === "out" ? "pointer" : type;
    });
    assert.deepEqual(kinds, declared, name);
  }
});

test("every declaration of the header is seen by this test", () => {
  const mentioned = header.replace(/\/\/.*$/gm, "").match(/\bpg_\w+(?=\()/g) ?? [];
  assert.equal(mentioned.length, declarations().size);
  assert.equal(Number(/#define PG_ABI_VERSION (\d+)/.exec(header)![1]), ABI_VERSION);
});

test("draws and rows are packed as the native structs lay them out", () => {
  const source = readFileSync(new URL("../../../../native/cpu/src/sample-row.h", import.meta.url), "utf8");
  for (const [name, words, numWords] of [
    ["Draw", DRAW, DRAW_WORDS],
    ["Row", ROW, ROW_WORDS],
  ] as const) {
    const [, body] = new RegExp(`struct ${name} \\{([^}]*)\\};`).exec(source)!;
    const names = [...body!.matchAll(/^ {2}(?:int32_t|float) (\w+);/gm)].map(([, field]) =>
      field!.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
    );
    assert.deepEqual(Object.fromEntries(names.map((field, word) => [field, word])), { ...words });
    assert.equal(names.length, numWords);
  }
});
