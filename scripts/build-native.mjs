// Builds native/cpu into build/native/ with the system's C++ compiler. Runs at install, with `npm run build`, and when the
// library is first loaded and absent or older than its sources. Nothing is downloaded.
//   node scripts/build-native.mjs            build when the sources changed
//   node scripts/build-native.mjs --test     build the sanitized test program instead; prints its path
//   CXX=aarch64-linux-gnu-g++ node scripts/build-native.mjs --arch arm64     for another machine
// CXX names the compiler; without it g++, clang++ and c++ are tried. Without any: one line, exit code 0 (the engine then runs
// on the reference device).
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The architecture to build for: this one, or with --arch another one that CXX compiles for. */
const archAt = process.argv.indexOf("--arch");
const arch = archAt < 0 ? process.arch : process.argv[archAt + 1];
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const sourceDir = join(root, "native", "cpu");
const outDir = join(root, "build", arch === "x64" ? "native" : `native-${arch}`);
const isTest = process.argv.includes("--test");

// The two warnings left out are false alarms inside GCC 12's own AVX-512 header.
// -ffp-contract=off: a multiply and an add are fused only where a kernel says so, so that every tile shape rounds alike.
const COMMON = [
  "-std=c++17",
  "-O3",
  "-fPIC",
  "-fvisibility=hidden",
  "-fno-math-errno",
  "-ffp-contract=off",
  "-Wall",
  "-Wextra",
  "-Wno-unknown-warning-option",
  "-Wno-uninitialized",
  "-Wno-maybe-uninitialized",
];
const TEST = [
  ...COMMON.filter((flag) => flag !== "-O3"),
  // Sanitizers do not run under an emulator.
  ...(arch === process.arch ? ["-O0", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"] : ["-O1"]),
];
const AVX2 = ["-mavx2", "-mfma", "-mf16c"];
const AVX512 = [...AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni"];
const DOTPROD = "-march=armv8.2-a+dotprod";
const AMX = [3, [...AVX512, "-mamx-tile", "-mamx-bf16"]];
/**
 * name -> [PG_ISA, flags, folder]. Files of src/kernels are compiled once per variant without a folder; a variant with one adds
 * the files of that folder to another variant. Everything else is compiled once. Tests also run the kernels of amx over plain
 * memory.
 */
const VARIANTS =
  arch === "x64"
    ? {
        portable: [1, []],
        avx2: [2, AVX2],
        avx512: [3, AVX512],
        amx: [...AMX, "amx"],
        ...(isTest ? { amx_twin: [3, [...AMX[1], "-DPG_TILES_TWIN"], "amx"] } : {}),
      }
    : arch === "arm64"
      ? {
          neon: [1, ["-DPG_NEON=1"]],
          dotprod: [1, ["-DPG_NEON=2", DOTPROD]],
          i8mm: [1, ["-DPG_NEON=3", `${DOTPROD}+i8mm`], "i8mm"],
        }
      : { portable: [1, []] };

function filesIn(dir, ending) {
  if (!existsSync(dir)) return [];
  return readdirSync(dir, { recursive: true })
    .map(String)
    .filter((name) => ending.some((e) => name.endsWith(e)))
    .sort()
    .map((name) => join(dir, name));
}

function findCompiler() {
  const candidates = process.env.CXX ? [process.env.CXX] : ["g++", "clang++", "c++"];
  for (const name of candidates) {
    const probe = spawnSync(name, ["--version"], { encoding: "utf8" });
    if (probe.status === 0) return { name, version: probe.stdout.split("\n")[0] };
  }
  return null;
}

/** What is to be compiled: [source, object name, extra flags]. */
function units() {
  const all = filesIn(join(sourceDir, "src"), [".cpp"]);
  const inFolder = (name) => all.filter((file) => dirname(file) === join(sourceDir, "src", name));
  const finish = join(sourceDir, "src", "kernels", "finish.cpp");
  const has = { x64: ["-DPG_HAVE_X86", ...(isTest ? ["-DPG_TILES_TWIN"] : [])], arm64: ["-DPG_HAVE_ARM"] }[arch] ?? [];
  const once = inFolder(".").map((file) => [file, basename(file), has]);
  const perVariant = Object.entries(VARIANTS).flatMap(([name, [isa, flags, folder]]) =>
    (folder === undefined ? inFolder("kernels") : [...inFolder(folder), finish]).map((file) => [
      file,
      `${name}-${basename(file)}`,
      [`-DPG_NS=${name}`, `-DPG_ISA=${isa}`, ...flags],
    ]),
  );
  const tests = isTest
    ? filesIn(join(sourceDir, "test"), [".cpp"]).map((file) => [file, `test-${basename(file)}`, has])
    : [];
  // Kernels take longest: start them first.
  return [...perVariant, ...once, ...tests];
}

/** A source and the headers of ours that it includes, directly or not. */
function includedBy(file, found = new Set()) {
  if (found.has(file)) return found;
  found.add(file);
  for (const [, name] of readFileSync(file, "utf8").matchAll(/^#include "(.+)"/gm))
    includedBy(join(dirname(file), name), found);
  return found;
}

function run(command, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ["ignore", "inherit", "inherit"] });
    child.on("error", reject);
    child.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`${command} ended with ${code}`))));
  });
}

/** Compiles the units whose sources changed, as many at a time as there are processors, and links into `target`. */
async function build(compiler, flags, target) {
  const objectDir = join(outDir, isTest ? "objects-test" : "objects");
  mkdirSync(objectDir, { recursive: true });
  const queue = units().map(([file, name, extra]) => {
    const hash = createHash("sha256").update(JSON.stringify([compiler.version, flags, extra]));
    for (const part of includedBy(file)) hash.update(part).update(readFileSync(part));
    return { file, extra, object: join(objectDir, `${name}-${hash.digest("hex").slice(0, 16)}.o`) };
  });
  const stale = queue.filter(({ object }) => !existsSync(object));
  let next = 0;
  const worker = async () => {
    while (next < stale.length) {
      const { file, extra, object } = stale[next++];
      await run(compiler.name, [...flags, ...extra, "-c", file, "-o", `${object}.new`]);
      renameSync(`${object}.new`, object);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
  const objects = queue.map(({ object }) => object);
  // nodelete: a worker thread that dies unloads its libraries while our own threads may still run in this one.
  const kind = isTest ? ["-pthread"] : ["-shared", ...(process.platform === "linux" ? ["-Wl,-z,nodelete"] : [])];
  await run(compiler.name, [...flags, ...kind, ...objects, "-o", `${target}.new`, "-lpthread"]);
  renameSync(`${target}.new`, target); // atomic: a process that has the old one loaded keeps it
  for (const file of filesIn(objectDir, [""])) if (!objects.includes(file)) rmSync(file, { force: true });
}

/** One build at a time per checkout: test files start in parallel and may all find the library absent. */
async function locked(body) {
  const lock = join(outDir, "lock");
  for (;;) {
    try {
      mkdirSync(lock);
      break;
    } catch {
      const age = Date.now() - (statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
      if (age > 300_000) rmSync(lock, { recursive: true, force: true });
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  try {
    return await body();
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

async function main() {
  const compiler = findCompiler();
  if (compiler === null) {
    console.log(
      `pagoda: no C++ compiler (${process.env.CXX ?? "g++, clang++, c++"}) found; the cpu device is not built and the slower reference device will be used. Install one and run: node scripts/build-native.mjs`,
    );
    return;
  }
  const flags = isTest ? TEST : COMMON;
  const folders = isTest ? ["include", "src", "test"] : ["include", "src"];
  const sources = folders.flatMap((name) => filesIn(join(sourceDir, name), [".cpp", ".h"]));
  const hash = createHash("sha256").update(JSON.stringify([compiler.version, flags, VARIANTS, arch]));
  for (const file of sources) hash.update(file).update(readFileSync(file));
  const key = hash.digest("hex");
  mkdirSync(outDir, { recursive: true });
  const target = join(outDir, isTest ? "pagoda_cpu_test" : "pagoda_cpu.so");
  const stamp = `${target}.hash`;
  await locked(async () => {
    const isCurrent = existsSync(target) && existsSync(stamp) && readFileSync(stamp, "utf8") === key;
    if (isCurrent) {
      const now = new Date();
      utimesSync(target, now, now); // newer than the sources again: the loader compares times
      return;
    }
    const started = Date.now();
    await build(compiler, flags, target);
    writeFileSync(stamp, key);
    if (!isTest) console.log(`pagoda: native cpu library built in ${((Date.now() - started) / 1000).toFixed(1)} s`);
  });
  if (isTest) console.log(target);
}

try {
  await main();
} catch (error) {
  console.log(
    `pagoda: the native cpu library could not be built (${error.message}); the reference device will be used.`,
  );
  if (isTest) process.exitCode = 1;
}
