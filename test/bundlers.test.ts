// Where people put Pagoda: into a server's bundle, with the one setting of docs/platforms.md, and into a folder where install scripts are
// blocked and there is no compiler. One installed copy serves both: without build/, its program must fall back on WebAssembly.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, test } from "node:test";
import { build } from "vite";

const app = mkdtempSync(join(tmpdir(), "pagoda-app-"));
after(() => rmSync(app, { recursive: true, force: true }));

/** As npm leaves it with --ignore-scripts: the package's files, its dependencies beside it, nothing compiled. */
function install(): void {
  const modules = join(app, "node_modules");
  mkdirSync(join(modules, "pagoda"), { recursive: true });
  for (const name of ["package.json", "dist/src", "native", "scripts"]) {
    cpSync(name, join(modules, "pagoda", name), {
      recursive: true,
      filter: (file) => !/\.(test\.js|d\.ts|map)$/.test(file),
    });
  }
  symlinkSync(resolve("models"), join(modules, "pagoda", "models"));
  for (const name of readdirSync("node_modules").filter((entry) => !entry.startsWith(".") && entry !== "pagoda")) {
    symlinkSync(resolve("node_modules", name), join(modules, name));
  }
}

const PROGRAM = `import { createEngine } from "pagoda";

const engine = await createEngine();
const { text } = await engine.chat("Tell me a story.", { maxTokens: 8 }).result();
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
  assert.match(stderr, /no C\+\+ compiler .*wasm device/);
});
