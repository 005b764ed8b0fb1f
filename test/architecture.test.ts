// The layer table of docs/architecture.md, held by a test: each folder imports lower layers only, folders of one layer do not
// import each other, cache and scheduler never see a device, and the FFI has one door.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, sep } from "node:path";
import { test } from "node:test";

const LAYERS = [
  ["core", "threads"],
  ["config", "tokenizer", "formats", "cache", "attention", "grammar", "drafter", "vision"],
  ["device"],
  ["scheduler", "sampler", "models"],
  ["adapters", "chat"],
  ["engine"],
  ["server", "cluster"],
  ["cli", "ai", "browser"],
];
const layerOf = new Map(LAYERS.flatMap((folders, layer) => folders.map((folder) => [folder, layer] as const)));

interface Import {
  readonly file: string;
  readonly target: string;
}

const sources = readdirSync("src", { recursive: true, encoding: "utf8" }).filter(
  (file) => file.endsWith(".ts") && !file.endsWith(".test.ts"),
);

function importsOf(file: string): string[] {
  const text = readFileSync(join("src", file), "utf8");
  return [...text.matchAll(/\bfrom "([^"]+)"|\bimport\(?\s*"([^"]+)"/g)].map((match) => (match[1] ?? match[2])!);
}

const imports: Import[] = sources.flatMap((file) => importsOf(file).map((target) => ({ file, target })));
const folderOf = (path: string) => path.split(sep)[0]!;
const inside = imports
  .filter(({ target }) => target.startsWith("."))
  .map(({ file, target }) => ({ file, target: normalize(join(dirname(file), target)) }));

test("every folder has its place in the layers", () => {
  const folders = new Set(sources.filter((file) => file.includes(sep)).map(folderOf));
  for (const folder of folders) assert.ok(layerOf.has(folder), `src/${folder} is in no layer`);
});

test("imports go downwards only", () => {
  const wrong = inside.filter(({ file, target }) => {
    const from = folderOf(file);
    const to = folderOf(target);
    if (!file.includes(sep) || from === to) return false; // src/index.ts, or within one folder
    return layerOf.get(to)! >= layerOf.get(from)!;
  });
  assert.deepEqual(
    wrong.map(({ file, target }) => `${file} imports ${target}`),
    [],
  );
});

test("cache and scheduler never see a device; models and sampler see its interface only", () => {
  const wrong = inside.filter(({ file, target }) => {
    if (folderOf(target) !== "device") return false;
    if (["cache", "scheduler"].includes(folderOf(file))) return true;
    return ["models", "sampler", "attention"].includes(folderOf(file)) && target !== join("device", "device.js");
  });
  assert.deepEqual(
    wrong.map(({ file, target }) => `${file} imports ${target}`),
    [],
  );
});

test("only abi.ts touches the FFI, and core imports nothing from outside but its own", () => {
  const ffi = imports.filter(({ target }) => target === "koffi").map(({ file }) => file);
  for (const file of ffi) assert.match(file, /abi\.ts$/);
  const core = imports.filter(({ file, target }) => folderOf(file) === "core" && !target.startsWith("."));
  assert.deepEqual(
    core.map(({ file, target }) => `${file} imports ${target}`),
    [],
  );
});
