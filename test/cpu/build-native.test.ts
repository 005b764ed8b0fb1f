// How the build script behaves: no compiler, an interrupted build, a folder that cannot be written, two processes at once. A
// package of two small sources stands for the real one, so that the real compiler takes no time.

import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const scripts = fileURLToPath(new URL("../../../scripts", import.meta.url));
const hasCompiler = spawnSync("g++", ["--version"]).status === 0;
const needsCompiler = hasCompiler ? false : "no g++ here";
const folders: string[] = [];
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** The repository, or what npm installs of it: without src. */
function makePackage(isRepository = true): string {
  const root = mkdtempSync(join(tmpdir(), "pagoda-build-"));
  folders.push(root);
  if (isRepository) mkdirSync(join(root, "src"));
  mkdirSync(join(root, "native/cpu/src/kernels"), { recursive: true });
  cpSync(join(scripts, "build-native.mjs"), join(root, "scripts/build-native.mjs"));
  cpSync(join(scripts, "native"), join(root, "scripts/native"), { recursive: true });
  writeFileSync(join(root, "native/cpu/src/one.cpp"), 'extern "C" int one() { return 1; }\n');
  writeFileSync(join(root, "native/cpu/src/kernels/finish.cpp"), "\n");
  return root;
}

/** g++ that, once asked to compile, says so with a file and waits for another. */
function makeSlowCompiler(root: string): { path: string; hasBegun: string; go: string } {
  const [path, hasBegun, go] = ["slow-g++", "begun", "go"].map((name) => join(root, name)) as [string, string, string];
  writeFileSync(
    path,
    `#!/bin/sh\n[ "$1" = --version ] && exec g++ --version\ntouch ${hasBegun}\nuntil [ -e ${go} ]; do sleep 0.05; done\nexec g++ "$@"\n`,
  );
  chmodSync(path, 0o755);
  return { path, hasBegun, go };
}

interface Build {
  readonly child: ChildProcess;
  readonly ended: Promise<{ code: number | null; path: string; said: string }>;
  said(): string;
}

function startBuild(root: string, env: Record<string, string> = {}, ...flags: string[]): Build {
  const child = spawn(process.execPath, [join(root, "scripts/build-native.mjs"), ...flags], {
    env: { ...process.env, CXX: "g++", XDG_CACHE_HOME: join(root, "cache"), ...env },
  });
  let path = "";
  let said = "";
  child.stdout.on("data", (text) => {
    path += text;
  });
  child.stderr.on("data", (text) => {
    said += text;
  });
  const ended = once(child, "close").then(([code]) => ({ code, path: path.trim(), said }));
  return { child, ended, said: () => said };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(20);
}

test("without a compiler the build says so in one line and does not fail", async () => {
  const { code, path, said } = await startBuild(makePackage(), { CXX: "no-such-compiler" }).ended;
  assert.equal(code, 0);
  assert.equal(path, "");
  assert.match(said, /^pagoda: no C\+\+ compiler \(no-such-compiler\) found: .*wasm device.*\n$/);
});

test("a build is never silent, and the second one has nothing to do", { skip: needsCompiler }, async () => {
  const root = makePackage();
  const first = await startBuild(root).ended;
  assert.equal(
    first.path,
    join(root, "build", process.arch === "x64" ? "native" : `native-${process.arch}`, "pagoda_cpu.so"),
  );
  assert.match(
    first.said,
    /^pagoda: compiling the native cpu library in .*\n(pagoda: compiling \d of \d\n)+pagoda: native cpu library built/,
  );
  assert.equal((await startBuild(root).ended).said, "");
});

test("a killed build leaves a lock that the next one takes over at once", { skip: needsCompiler }, async () => {
  const root = makePackage();
  const slow = makeSlowCompiler(root);
  const killed = startBuild(root, { CXX: slow.path });
  await until(() => existsSync(slow.hasBegun));
  const gone = once(killed.child, "exit");
  killed.child.kill("SIGKILL");
  await gone;
  writeFileSync(slow.go, ""); // lets its orphaned compilers end
  const { code, said } = await startBuild(root).ended;
  assert.equal(code, 0);
  assert.match(said, /built in/);
  assert.doesNotMatch(said, /waiting/);
});

test("an interrupted build gives its lock back and stops its compilers", { skip: needsCompiler }, async () => {
  const root = makePackage();
  const slow = makeSlowCompiler(root);
  const { child, ended } = startBuild(root, { CXX: slow.path });
  await until(() => existsSync(slow.hasBegun));
  child.kill("SIGINT");
  assert.equal((await ended).code, 130); // `close` waits for the compilers too: they hold its stderr
  assert.equal(existsSync(join(root, "build/native/lock")), false);
});

test("a lock whose process id belongs to a later process is stale", { skip: needsCompiler }, async () => {
  const root = makePackage();
  const first = await startBuild(root).ended;
  writeFileSync(join(first.path, "../lock"), `${process.pid} 1`);
  assert.equal((await startBuild(root).ended).code, 0);
});

test("an installed package's library is built in the user's cache folder, once for all projects", {
  skip: needsCompiler,
}, async () => {
  const root = makePackage(false);
  const { path } = await startBuild(root).ended;
  assert.ok(path.startsWith(join(root, "cache/pagoda/native-")), path);
  assert.ok(readFileSync(path).length > 0);
  assert.equal(existsSync(join(path, "../objects")), false);
  const other = await startBuild(makePackage(false), { XDG_CACHE_HOME: join(root, "cache") }).ended;
  assert.deepEqual([other.path, other.said], [path, ""]);
  writeFileSync(join(root, "native/cpu/src/one.cpp"), 'extern "C" int one() { return 2; }\n');
  assert.notEqual((await startBuild(root).ended).path, path);
});

test("where the repository cannot be written, too", { skip: needsCompiler }, async () => {
  const root = makePackage();
  writeFileSync(join(root, "build"), "a file where the folder should be");
  const { path } = await startBuild(root).ended;
  assert.ok(path.startsWith(join(root, "cache/pagoda/native-")), path);
});

test("a build in the background leaves building to the one that began, and says where it failed", {
  skip: needsCompiler,
}, async () => {
  const root = makePackage(false);
  const slow = makeSlowCompiler(root);
  const first = startBuild(root, { CXX: slow.path }, "--background");
  await until(() => existsSync(slow.hasBegun));
  const second = await startBuild(root, { CXX: slow.path }, "--background").ended;
  assert.deepEqual([second.code, second.path, second.said], [0, "", ""]);
  writeFileSync(slow.go, "");
  const { path } = await first.ended;
  assert.equal(existsSync(path), true);
  writeFileSync(join(root, "native/cpu/src/one.cpp"), "this is no C++\n");
  assert.equal((await startBuild(root, {}, "--background").ended).path, "");
  const failed = () =>
    readdirSync(join(root, "cache/pagoda")).filter((name) => existsSync(join(root, "cache/pagoda", name, "failed")));
  assert.equal(failed().length, 1);
  writeFileSync(join(root, "native/cpu/src/one.cpp"), 'extern "C" int one() { return 1; }\n');
  assert.notEqual((await startBuild(root).ended).path, "");
});

test("two processes at once: one builds, the other waits for it and says so", { skip: needsCompiler }, async () => {
  const root = makePackage();
  const slow = makeSlowCompiler(root);
  const first = startBuild(root, { CXX: slow.path });
  await until(() => existsSync(slow.hasBegun));
  const second = startBuild(root);
  await until(() => second.said().includes(`process ${first.child.pid} is compiling`));
  writeFileSync(slow.go, "");
  const [one, two] = await Promise.all([first.ended, second.ended]);
  assert.deepEqual([one.code, two.code, one.path], [0, 0, two.path]);
  assert.match(one.said, /built in/);
  assert.doesNotMatch(two.said, /built in/);
});
