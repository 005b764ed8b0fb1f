// Builds native/cpu with the system's C++ compiler. Runs at install, with `npm run build`, and when the library is first loaded
// and absent or older than its sources. Nothing is downloaded. Prints the library's path, and on stderr what it does.
//   node scripts/build-native.mjs            build when the sources changed
//   node scripts/build-native.mjs --find     print the path of what is built already, if it is; build nothing
//   node scripts/build-native.mjs --test     build the sanitized test program instead
//   node scripts/build-native.mjs --twin     the library with the tiles of amx over plain memory and avxvnni without its instruction, until the next build without it
//   CXX=aarch64-linux-gnu-g++ node scripts/build-native.mjs --arch arm64     for another machine
// CXX names the compiler; without it g++, clang++ and c++ are tried. Without any: one line, exit code 0 (the engine then runs
// on the wasm device). The result is in build/, or in the user's cache folder where the package's cannot be written.
import { existsSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { compile, findCompiler, keyOf, libraryName, root } from "./native/compile.mjs";
import { withLock } from "./native/lock.mjs";
import { cacheFolder, firstWritable } from "./native/place.mjs";

const archAt = process.argv.indexOf("--arch");
const target = {
  arch: archAt < 0 ? process.arch : process.argv[archAt + 1],
  platform: process.platform,
  kind: process.argv.includes("--test") ? "test" : "library",
  twin: process.argv.includes("--twin"),
};
const say = (line) => process.stderr.write(`pagoda: ${line}\n`);

// An interrupted build leaves at once; what hangs on `exit` (the lock, the compilers) is cleared away.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => process.exit(130));

function findAnyCompiler() {
  return findCompiler(process.env.CXX ? [process.env.CXX] : ["g++", "clang++", "c++"]);
}

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
      say(`compiling the native cpu library in ${folder}, once; --device wasm starts without it`);
    await compile(target, compiler, folder, file, target.kind === "library" ? progressLine() : undefined);
    writeFileSync(stampOf(file), key);
    if (target.kind === "library") say(`native cpu library built in ${((Date.now() - started) / 1000).toFixed(1)} s`);
  };
  await withLock(join(folder, "lock"), body, (pid) =>
    say(`process ${pid} is compiling the native library; waiting for it`),
  );
  return file;
}

async function main() {
  const isFinding = process.argv.includes("--find");
  const compiler = findAnyCompiler();
  if (compiler === null) {
    const tried = process.env.CXX || "g++, clang++, c++";
    if (!isFinding) say(`no C++ compiler (${tried}) found: the cpu device is not built, the wasm device will be used`);
    return;
  }
  const key = keyOf(target, compiler.version);
  const own = join(root, "build", target.arch === "x64" ? "native" : `native-${target.arch}`);
  const folders = [own, join(cacheFolder(), `native-${key.slice(0, 16)}`)];
  if (isFinding) {
    const built = folders.map(fileIn).find((file) => isBuilt(file, key));
    if (built !== undefined) console.log(built);
    return;
  }
  const folder = firstWritable(folders);
  if (folder === null) throw new Error(`neither ${own} nor ${cacheFolder()} can be written`);
  console.log(await buildIn(folder, compiler, key));
}

try {
  await main();
} catch (error) {
  say(`the native cpu library could not be built (${error.message}); the wasm device will be used`);
  if (target.kind === "test") process.exitCode = 1;
}
