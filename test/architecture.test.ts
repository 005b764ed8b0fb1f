// The layer table of docs/internals/architecture.md, held by a test: each folder imports lower layers only, folders of one layer do not
// import each other, cache and scheduler never see a device, and the FFI has one door. Files have a budget of lines (functions too:
// biome.json), and the way of a chat through them is the one that the document draws.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, sep } from "node:path";
import { test } from "node:test";

const LAYERS = [
  ["core"],
  ["threads"],
  ["templates"],
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

test("devices do not import each other; wasm is the cpu device's kernels in another module", () => {
  const wrong = inside.filter(({ file, target }) => {
    const [from, to] = [file, target].map((path) => path.split(sep));
    if (from![0] !== "device" || to![0] !== "device" || from!.length < 3 || to!.length < 3) return false;
    return from![1] !== to![1] && !(from![1] === "wasm" && to![1] === "cpu");
  });
  assert.deepEqual(
    wrong.map(({ file, target }) => `${file} imports ${target}`),
    [],
  );
});

/** Of a file. Tables of what there is may be longer. */
const MOST_LINES = 400;
const TABLES = ["scripts/docs/model-catalog.ts", "engine/types.ts", "config/engine-config.ts"];
/** Longer ones that wait to be cut: no longer than this. */
const LONGER: Readonly<Record<string, number>> = {
  "device/cuda/cuda-device.ts": 450,
  "device/cuda/experts.ts": 500,
  "formats/gguf/mmproj/projectors.ts": 500,
  "vision/processor.ts": 450,
};

test("a file has one idea, and so few lines", () => {
  const tooLong = sources
    .map((file) => file.split(sep).join("/"))
    .filter((file) => !TABLES.includes(file))
    .map((file) => ({ file, lines: readFileSync(join("src", file), "utf8").split("\n").length - 1 }))
    .filter(({ file, lines }) => lines > (LONGER[file] ?? MOST_LINES));
  assert.deepEqual(tooLong, []);
});

/** Files side by side in one folder, tests not counted. */
const MOST_SIDE_BY_SIDE = 25;
/** Folders that may hold more: families are a list. */
const FULLER: Readonly<Record<string, number>> = {
  "src/models/families": Number.POSITIVE_INFINITY,
};

test("a folder is a room that a reader takes in at a glance", () => {
  const folders = new Map<string, number>();
  for (const root of ["src", "web/src", "bench", "scripts"]) {
    for (const file of readdirSync(root, { recursive: true, encoding: "utf8" })) {
      if (!/\.(ts|mjs|sh)$/.test(file) || /\.test\.ts$/.test(file)) continue;
      const folder = join(root, dirname(file)).split(sep).join("/");
      folders.set(folder, (folders.get(folder) ?? 0) + 1);
    }
  }
  const full = [...folders].filter(([folder, files]) => files > (FULLER[folder] ?? MOST_SIDE_BY_SIDE));
  assert.deepEqual(full, []);
});

/** Files between the call of a chat and its answer. */
const MOST_FILES = 45;

test("the way of a chat through the source is the one that is drawn", () => {
  const walked = execFileSync(process.execPath, ["scripts/chat-walk.mjs"], { encoding: "utf8" }).trimEnd();
  const drawn = /<!-- the walk: .*? -->\n(.*?)\n<!-- end of the walk -->/s.exec(
    readFileSync("docs/internals/architecture.md", "utf8"),
  );
  const filesOf = (table: string) => [...table.matchAll(/^\| \d+ \| `(.*?)` \|/gm)].map(([, file]) => file);
  assert.deepEqual(
    filesOf(drawn?.[1] ?? ""),
    filesOf(walked),
    "run: npm run build && node scripts/chat-walk.mjs --write",
  );
  assert.ok(filesOf(walked).length <= MOST_FILES, `${filesOf(walked).length} files`);
});
