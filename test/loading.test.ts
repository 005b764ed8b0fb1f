// What a program loads of Pagoda, by V8's own list of scripts, thread by thread: neither an import nor an engine brings the server along,
// nor does either thread load what only the other needs.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

interface Loaded {
  /** Names of packages. */
  readonly packages: readonly string[];
  /** Of Pagoda itself, from src on. */
  readonly files: readonly string[];
}

/** By thread: the caller's, then the engine's. Without a driver of CUDA, as on most machines. */
function loadedBy(...args: string[]): Loaded[] {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-loaded-"));
  try {
    const { status, stderr } = spawnSync(process.execPath, args, {
      ...{ encoding: "utf8", timeout: 240_000 },
      env: { ...process.env, NODE_V8_COVERAGE: folder, PAGODA_CUDA_DRIVER: join(folder, "no-such-driver") },
    });
    assert.equal(status, 0, stderr);
    const threadOf = (file: string): number => Number(/-(\d+)\.json$/.exec(file)![1]);
    const files = readdirSync(folder).sort((a, b) => threadOf(a) - threadOf(b));
    return files.map((file) => scriptsOf(join(folder, file)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function scriptsOf(file: string): Loaded {
  const { result } = JSON.parse(readFileSync(file, "utf8")) as { result: readonly { url: string }[] };
  const urls = result.map(({ url }) => url).filter((url) => url.startsWith("file:"));
  const found = (pattern: RegExp): string[] => [...new Set(urls.flatMap((url) => pattern.exec(url)?.[1] ?? []))].sort();
  return {
    // webgpu is installed by those who want it: then auto looks for a GPU with it.
    packages: found(/.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//).filter((name) => name !== "webgpu"),
    files: found(/^(?!.*\/node_modules\/).*\/dist\/src\/(.*)\.js$/),
  };
}

const program = (text: string): string[] => [
  "--input-type=module",
  "--eval",
  `import { createEngine, createServer } from "pagoda";\n${text}`,
];
const under = ({ files }: Loaded, ...folders: string[]): string[] =>
  files.filter((file) => folders.some((folder) => file.startsWith(`${folder}/`)));

test("an import loads no package, and of Pagoda what checks options and starts a thread", () => {
  const [caller, ...others] = loadedBy(...program(""));
  assert.deepEqual([caller!.packages, others], [[], []]);
  assert.deepEqual(caller!.files, [
    "config/engine-config",
    "config/options",
    "config/server-config",
    "config/speculation",
    "config/variables",
    "core/errors",
    "core/speculation",
    "core/suggest",
    "engine/client/engine",
    "engine/client/host",
    "engine/client/inbox",
    "engine/core/driver",
    "engine/messages",
    "formats/hub/hub",
    "formats/hub/hub-cache",
    "formats/hub/hub-spec",
    "formats/hub/models",
    "index",
    "server/server",
  ]);
});

test("the README's program loads a tokenizer into its own thread, and the engine into the engine's", () => {
  const [caller, engine] = loadedBy("dist/examples/six-lines.js");
  assert.deepEqual(caller!.packages, ["@huggingface/tokenizers"]);
  assert.deepEqual(under(caller!, "server"), ["server/server"]);
  assert.deepEqual(under(caller!, "cli", "cluster", "device", "grammar", "models", "sampler", "scheduler"), []);
  assert.ok(caller!.files.includes("templates/template"));

  const native = engine!.packages.filter((name) => /koffi/.test(name));
  assert.deepEqual(engine!.packages, ["@huggingface/tokenizers", ...native].sort());
  assert.deepEqual(under(engine!, "ai", "cli", "cluster", "engine/client", "server", "templates"), []);
  assert.deepEqual(under(engine!, "device/null", "device/reference"), []);
  assert.ok(!engine!.files.includes("device/cuda/cuda-device"), "there is no driver");
  assert.ok(engine!.files.includes("engine/core/engine-core"));
});

test("a server is loaded when it is to listen", () => {
  const engine = 'const engine = await createEngine({ device: "null" });';
  const [silent] = loadedBy(...program(`${engine} createServer(engine); await engine.close();`));
  assert.deepEqual([silent!.packages, under(silent!, "server")], [["@huggingface/tokenizers"], ["server/server"]]);
  const server = 'const server = createServer(engine, { port: 0, logLevel: "silent" });';
  const [open] = loadedBy(
    ...program(`${engine} ${server} await server.listen(); await server.close(); await engine.close();`),
  );
  for (const name of ["@hono/node-server", "hono", "zod"]) assert.ok(open!.packages.includes(name), name);
});
