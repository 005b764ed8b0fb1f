// Where people put Pagoda: into a server's bundle, with the one setting of docs/guide/platforms.md, and into a folder where install scripts are
// blocked and there is no compiler. One installed copy serves both: without build/, its program must fall back on WebAssembly.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, test } from "node:test";
import { build } from "vite";
import { until } from "./support/until.js";

const app = mkdtempSync(join(tmpdir(), "pagoda-app-"));
after(() => rmSync(app, { recursive: true, force: true }));

/** As npm leaves it with --ignore-scripts: the package's files, its dependencies beside it, nothing compiled. */
function install(): void {
  const modules = join(app, "node_modules");
  mkdirSync(join(modules, "pagoda"), { recursive: true });
  for (const name of ["package.json", "dist/src", "native", "scripts"]) {
    cpSync(name, join(modules, "pagoda", name), {
      recursive: true,
      filter: (file) => !/\.(test\.js|d\.ts|js\.map)$/.test(file),
    });
  }
  symlinkSync(resolve("models"), join(modules, "pagoda", "models"));
  for (const name of readdirSync("node_modules").filter((entry) => !entry.startsWith(".") && entry !== "pagoda")) {
    symlinkSync(resolve("node_modules", name), join(modules, name));
  }
}

const PROGRAM = `import { createEngine } from "pagoda";

const engine = await createEngine();
const { text } = await engine.chat("Tell me a story.", { maxTokens: 8 });
console.log(JSON.stringify({ text, device: engine.model.device }));
await engine.close();
`;

test("a server bundle with pagoda left outside answers, without install scripts and without a compiler", async () => {
  install();
  writeFileSync(join(app, "package.json"), JSON.stringify({ type: "module" }));
  writeFileSync(join(app, "server.js"), PROGRAM);
  await build({
    ...{ configFile: false, root: app, logLevel: "silent" },
    ssr: { external: ["pagoda"] },
    build: { ssr: "server.js", outDir: "out", target: "esnext" },
  });
  assert.match(readFileSync(join(app, "out/server.js"), "utf8"), /from "pagoda"/);
  const { stdout, stderr, status } = spawnSync(process.execPath, ["out/server.js"], {
    ...{ cwd: app, encoding: "utf8" },
    env: { ...process.env, PATH: "", CXX: "no-such-compiler", XDG_CACHE_HOME: join(app, "cache") },
  });
  assert.equal(status, 0, stderr);
  const { text, device } = JSON.parse(stdout) as { text: string; device: string };
  assert.notEqual(text, "");
  assert.match(device, /^(cuda|wasm): /);
  assert.match(stderr, /^pagoda: running on WebAssembly: .*no C\+\+ compiler\n$/m);
});

const library = `build/${process.arch === "x64" ? "native" : `native-${process.arch}`}/pagoda_cpu.so`;

test("with a compiler the first start takes WebAssembly, the next one what was compiled meanwhile, in every project", {
  skip: existsSync(library) ? false : "no native library is built here",
}, async () => {
  // Says what it is asked for, and takes the library that is built here as what it linked: the real one would take minutes.
  const compiler = join(app, "compiler");
  const asked = join(app, "asked");
  const link = `case "$*" in *--version) echo fake 1;; *-shared*) for out; do :; done; cp ${resolve(library)} "$out";; *) for out; do :; done; echo >"$out"; echo >>${asked};; esac`;
  writeFileSync(compiler, `#!/bin/sh\n${link}\n`, { mode: 0o755 });
  const start = () => {
    const env = { ...process.env, CXX: compiler, XDG_CACHE_HOME: join(app, "cache") };
    const said = spawnSync(process.execPath, ["server.js"], { cwd: app, encoding: "utf8", env });
    assert.equal(said.status, 0, said.stderr);
    const stderr = said.stderr.replace(/^Warning: Couldn't load Vulkan[\s\S]*?\n\n/, ""); // Dawn's, where it is installed
    return { device: (JSON.parse(said.stdout) as { device: string }).device.split(":")[0], stderr };
  };
  const first = start();
  if (first.device === "cuda") return;
  assert.equal(first.device, "wasm");
  assert.match(first.stderr, /^pagoda: running on WebAssembly: .*compiled in the background.*\n$/);
  const cached = () =>
    existsSync(join(app, "cache")) ? readdirSync(join(app, "cache/pagoda"), { recursive: true }) : [];
  const isThere = (name: string) => cached().some((file) => String(file).endsWith(name));
  // Objects are cleared away last.
  await until(() => isThere("pagoda_cpu.so.hash") && !isThere("objects"), "a library in the cache folder");
  const compiled = readFileSync(asked, "utf8").length;
  assert.ok(compiled > 50, `${compiled} files`);
  assert.deepEqual(start(), { device: "cpu", stderr: "" });
  const pagoda = join(app, "node_modules/pagoda");
  renameSync(pagoda, `${pagoda}-2`); // another project's copy
  cpSync(`${pagoda}-2`, pagoda, { recursive: true, verbatimSymlinks: true });
  assert.deepEqual(start(), { device: "cpu", stderr: "" });
  assert.equal(readFileSync(asked, "utf8").length, compiled);
});
