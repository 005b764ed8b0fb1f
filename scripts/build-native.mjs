// Builds native/cpu with the system's C++ compiler. Runs with `npm run build`, and in the background of the first engine that finds no
// library (src/device/cpu/library.ts). Nothing is downloaded. Prints the library's path, and on stderr what it does.
//   node scripts/build-native.mjs                  build when the sources changed
//   node scripts/build-native.mjs --background     the same on half of the processors at the lowest priority; not where another process builds
//   node scripts/build-native.mjs --test     build the sanitized test program instead
//   node scripts/build-native.mjs --twin     the library with the tiles of amx over plain memory and avxvnni without its instruction, until the next build without it
//   CXX=aarch64-linux-gnu-g++ node scripts/build-native.mjs --arch arm64     for another machine
// CXX names the compiler; without it g++, clang++ and c++ are tried. Without any: one line, exit code 0 (the engine then runs
// on the wasm device). In the repository the result is in build/; an installed package's is in the user's cache folder, by the hash of its
// sources, for all projects.
import { existsSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { availableParallelism, setPriority } from "node:os";
import { join } from "node:path";
import { COMPILERS, cachedFolder, compile, findCompiler, keyOf, libraryName, root } from "./native/compile.mjs";
import { withLock } from "./native/lock.mjs";
import { FAILED, firstWritable } from "./native/place.mjs";

const archAt = process.argv.indexOf("--arch");
const target = {
  arch: archAt < 0 ? process.arch : process.argv[archAt + 1],
  platform: process.platform,
  kind: process.argv.includes("--test") ? "test" : "library",
  twin: process.argv.includes("--twin"),
};
const isBackground = process.argv.includes("--background");
const own = join(root, "build", target.arch === "x64" ? "native" : `native-${target.arch}`);
const cached = cachedFolder(target);
const say = (line) => process.stderr.write(`pagoda: ${line}\n`);

// An interrupted build leaves at once; what hangs on `exit` (the lock, the compilers) is cleared away.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => process.exit(130));

/** One line that is written over on a terminal, else a line at every quarter. */
function progressLine() {
  let quarter = 0;
  return (done, total) => {
    const text = `pagoda: compiling ${done} of ${total}`;
    if (process.stderr.isTTY) process.stderr.write(`\r${text}${done === total ? "\n" : ""}`);
    else if (done < total && Math.floor((4 * done) / total) > quarter) {
      quarter = Math.floor((4 * done) / total);
      process.stderr.write(`${text}\n`);
    }
  };
}

const fileIn = (folder) => join(folder, target.kind === "test" ? "pagoda_cpu_test" : libraryName(target.platform));
const stampOf = (file) => `${file}.hash`;
const isBuilt = (file, key) =>
  existsSync(file) && existsSync(stampOf(file)) && readFileSync(stampOf(file), "utf8") === key;

async function buildIn(folder, compiler, key) {
  const file = fileIn(folder);
  const body = async () => {
    if (isBuilt(file, key)) {
      const now = new Date();
      utimesSync(file, now, now); // newer than the sources again: the loader compares times
      return;
    }
    const started = Date.now();
    if (target.kind === "library")
      say(`compiling the native cpu library in ${folder}, once; the wasm device runs without it`);
    const jobs = isBackground ? Math.ceil(availableParallelism() / 2) : availableParallelism();
    await compile({ ...target, jobs }, compiler, folder, file, target.kind === "library" ? progressLine() : undefined);
    writeFileSync(stampOf(file), key);
    rmSync(join(folder, FAILED), { force: true });
    if (folder === cached) rmSync(join(folder, "objects"), { recursive: true, force: true }); // never built again
    if (target.kind === "library") say(`native cpu library built in ${((Date.now() - started) / 1000).toFixed(1)} s`);
  };
  await withLock(join(folder, "lock"), body, (pid) => {
    if (isBackground) process.exit(0);
    say(`process ${pid} is compiling the native library; waiting for it`);
  });
  return file;
}

async function main() {
  if (isBackground) setPriority(19);
  const compiler = findCompiler(COMPILERS);
  if (compiler === null) {
    say(`no C++ compiler (${COMPILERS.join(", ")}) found: the cpu device is not built, the wasm device will be used`);
    return;
  }
  const folder = firstWritable(existsSync(join(root, "src")) ? [own, cached] : [cached]);
  if (folder === null) throw new Error(`${cached} cannot be written`);
  console.log(await buildIn(folder, compiler, keyOf(target, compiler.version)));
}

try {
  await main();
} catch (error) {
  say(`the native cpu library could not be built (${error.message}); the wasm device will be used`);
  if (isBackground && firstWritable([cached])) writeFileSync(join(cached, FAILED), error.message); // no start tries it again
  if (target.kind === "test") process.exitCode = 1;
}
