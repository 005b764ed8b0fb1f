// Compiles native/cpu: which files, with which flags for which instruction set, as many at a time as there are processors.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheFolder } from "./place.mjs";

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const sourceDir = join(root, "native", "cpu");
/** Which names a library for Linux shows. */
const EXPORTS = join(root, "scripts", "native", "exports.map");

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
const AVX2 = ["-mavx2", "-mfma", "-mf16c"];
const AVX512 = [...AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni"];
const DOTPROD = "-march=armv8.2-a+dotprod";
// -fignore-exceptions: there are none in WebAssembly; what would throw for want of memory ends the instance.
const WASM = [
  "--target=wasm32-wasi",
  "-fignore-exceptions",
  "-matomics",
  "-mbulk-memory",
  "-mmutable-globals",
  "-mnontrapping-fptoint",
  "-msign-ext",
  "-msimd128",
];
// GCC takes the stack to be aligned for vectors of 32 and 64 bytes, and on Windows it is not: the assembler is told to make every move of
// one that bears it.
const UNALIGNED = "-Wa,-muse-unaligned-vector-move";
const AVXVNNI = [2, [...AVX2, "-mavxvnni", "-DPG_VNNI=1"], "avxvnni"];
const AVXVNNI_TWIN = [2, [...AVX2, "-DPG_VNNI=2"], "avxvnni"];
const AMX = [3, [...AVX512, "-mamx-tile", "-mamx-bf16", "-mamx-int8", "-mavx512vbmi", "-mgfni"], "amx"];
const AMX_TWIN = [3, [...AVX512, "-DPG_TILES_TWIN"], "amx"];

// Not under an emulator, where sanitizers do not run. All but the checks themselves is about the compiler's time: inlining where nothing is
// optimised would copy every format's code into every packer, which takes a minute; checks of object sizes, null and pointer arithmetic see
// nothing here that those of addresses do not once the pointer is used, and take half of it; traps for undefined behaviour are quicker made
// than messages for each place, and the handler of addresses says where it trapped.
const SANITIZED = [
  "-O0",
  "-g1",
  "-fsanitize=address,undefined,float-cast-overflow",
  "-fno-sanitize=object-size,null,pointer-overflow",
  "-fsanitize-undefined-trap-on-error",
  "-Dalways_inline=unused",
];

/**
 * What a build is for; `kind` is "library", "test" (the native tests under sanitizers) or "check" (the native tests over the very objects
 * of the library). `twin`: kernels of amx are those over plain memory, as they always are under sanitizers, which see no loads of tiles, and
 * those of avxvnni have its instruction made of others.
 */
export function flagsOf({ arch, kind }) {
  if (arch === "wasm") return [...COMMON.filter((flag) => flag !== "-fPIC"), ...WASM];
  if (arch === "wasm-relaxed") return [...flagsOf({ arch: "wasm", kind }), "-mrelaxed-simd"];
  if (kind !== "test") return COMMON;
  return [...COMMON.filter((flag) => flag !== "-O3"), ...(arch === process.arch ? SANITIZED : ["-O1"])];
}

/**
 * name -> [PG_ISA, flags, folder]. Files of src/kernels are compiled once per variant without a folder; a variant with one adds
 * the files of that folder to another variant. Everything else is compiled once.
 */
export function variantsOf({ arch, kind, twin = false }) {
  switch (arch) {
    case "x64":
      return {
        portable: [1, []],
        avx2: [2, AVX2],
        avxvnni: twin || kind === "test" ? AVXVNNI_TWIN : AVXVNNI,
        avx512: [3, AVX512],
        amx: twin || kind === "test" ? AMX_TWIN : AMX,
      };
    case "arm64":
      return {
        neon: [1, ["-DPG_NEON=1"]],
        dotprod: [1, ["-DPG_NEON=2", DOTPROD]],
        i8mm: [1, ["-DPG_NEON=3", `${DOTPROD}+i8mm`], "i8mm"],
      };
    case "wasm":
      return { wasm: [1, ["-DPG_WASM=1"]] };
    case "wasm-relaxed":
      return { wasm: [1, ["-DPG_WASM=2"]] };
    default:
      return { portable: [1, []] };
  }
}

export function filesIn(dir, ending) {
  if (!existsSync(dir)) return [];
  return readdirSync(dir, { recursive: true })
    .map(String)
    .filter((name) => ending.some((e) => name.endsWith(e)))
    .sort()
    .map((name) => join(dir, name));
}

/** Tried in this order. */
export const COMPILERS = process.env.CXX ? [process.env.CXX] : ["g++", "clang++", "c++"];

/** The first of these compilers that runs, with the first line of what it says of itself. A candidate is a command, or one with arguments. */
export function findCompiler(candidates) {
  for (const candidate of candidates) {
    const [name, ...args] = [candidate].flat();
    const probe = spawnSync(name, [...args, "--version"], { encoding: "utf8" });
    if (probe.status === 0) return { name, args, version: [probe.stdout.split("\n")[0], ...args].join(" ") };
  }
  return null;
}

/** A source that includes these: headers are read and their templates made once for all of them. */
function together(files, folder, name) {
  const file = join(folder, name);
  writeFileSync(file, files.map((part) => `#include "${relative(folder, part)}"\n`).join(""));
  return file;
}

/** What is to be compiled: [source, object name, extra flags]. The sanitized tests take many sources at once. */
function unitsOf(target, objectDir) {
  const all = filesIn(join(sourceDir, "src"), [".cpp"]);
  const inFolder = (name) => all.filter((file) => dirname(file) === join(sourceDir, "src", name));
  const finish = join(sourceDir, "src", "kernels", "finish.cpp");
  const isTest = target.kind === "test";
  const twin = isTest || target.twin ? ["-DPG_TWINS"] : [];
  const has = { x64: ["-DPG_HAVE_X86", ...twin], arm64: ["-DPG_HAVE_ARM"] };
  const defines = has[target.arch] ?? [];
  const unitsFrom = (files, prefix, flags) => {
    if (!isTest) return files.map((file) => [file, `${prefix}${basename(file)}`, flags]);
    const groups = new Map(); // those named here have names of their own that others have too
    for (const file of files) {
      const name = `${prefix}${/^(?:attention|matmul-int|span-many|span-some|span-turned)/.exec(basename(file))?.[0] ?? ""}all.cpp`;
      groups.set(name, [...(groups.get(name) ?? []), file]);
    }
    // The products of one number at a time are most of the tests' time, and soon compiled.
    const optimised = (name) => (name === "portable-matmul-intall.cpp" ? ["-Og"] : []);
    return Array.from(groups, ([name, some]) => [
      together(some, objectDir, name),
      name,
      [...flags, ...optimised(name)],
    ]);
  };
  const perVariant = Object.entries(variantsOf(target)).flatMap(([name, [isa, flags, folder]]) =>
    unitsFrom(folder === undefined ? inFolder("kernels") : [...inFolder(folder), finish], `${name}-`, [
      `-DPG_NS=${name}`,
      `-DPG_ISA=${isa}`,
      ...flags,
    ]),
  );
  const tests = target.kind !== "library" ? filesIn(join(sourceDir, "test"), [".cpp"]) : [];
  // Kernels take longest: start them first.
  return [...perVariant, ...unitsFrom(inFolder("."), "", defines), ...unitsFrom(tests, "test-", defines)];
}

/** A source and the headers of ours that it includes, directly or not. */
function includedBy(file, found = new Set()) {
  if (found.has(file)) return found;
  found.add(file);
  for (const [, name] of readFileSync(file, "utf8").matchAll(/^#include "(.+)"/gm))
    includedBy(join(dirname(file), name), found);
  return found;
}

/** The state of everything that a build is made of. Paths are those in the package: the same sources have one key everywhere. */
export function keyOf(target, compiler) {
  const folders = target.kind !== "library" ? ["include", "src", "test"] : ["include", "src"];
  const hash = createHash("sha256");
  hash.update(JSON.stringify([compiler, flagsOf(target), variantsOf(target), target.arch]));
  if (target.platform === "linux") hash.update(readFileSync(EXPORTS));
  for (const file of folders.flatMap((name) => filesIn(join(sourceDir, name), [".cpp", ".h"]))) {
    const name = file.slice(root.length);
    if (target.platform === "wasm" && /\/(amx|avxvnni|i8mm)\//.test(name)) continue; // not part of it
    hash.update(name).update(readFileSync(file));
  }
  return hash.digest("hex");
}

/**
 * Where an installed package's library lies, for every project of the user. Not by the compiler's version: what an older one made serves, also
 * where there is none any more. A compiler that is named has a folder of its own.
 */
export function cachedFolder(target) {
  return join(cacheFolder(), `native-${keyOf(target, process.env.CXX ?? "").slice(0, 16)}`);
}

/** Ends with the compilers when this process is told to end; what they had under way is left as a file that nobody takes. */
export function run(command, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ["ignore", 2, 2] });
    const kill = () => child.kill();
    process.once("exit", kill);
    child.on("error", reject);
    child.on("exit", (code) => {
      process.off("exit", kill);
      if (code === 0) resolve();
      else reject(new Error(`${command} ended with ${code}`));
    });
  });
}

/**
 * Compiles the units whose sources changed into outDir and links them into `library`. target: { arch, platform, kind, link, jobs },
 * link: more flags for the linker, jobs: how many compilers at once. onProgress(done, total) hears of every unit.
 */
export async function compile(target, compiler, outDir, library, onProgress = () => undefined) {
  const isWindowsGcc = target.platform === "win32" && !compiler.version.includes("clang");
  const flags = [...flagsOf(target), ...(isWindowsGcc ? [UNALIGNED] : [])];
  const objectDir = join(outDir, target.kind === "test" ? "objects-test" : "objects");
  mkdirSync(objectDir, { recursive: true });
  // zig names processors, not architectures.
  const named = (flag) => (compiler.name === "zig" ? flag.replace("-march=armv8.2-a", "-mcpu=generic") : flag);
  const queue = unitsOf(target, objectDir).map(([file, name, given]) => {
    const extra = given.map(named);
    const hash = createHash("sha256").update(JSON.stringify([compiler.version, flags, extra]));
    for (const part of includedBy(file)) hash.update(part).update(readFileSync(part));
    return { file, extra, object: join(objectDir, `${name}-${hash.digest("hex").slice(0, 16)}.o`) };
  });
  const stale = queue.filter(({ object }) => !existsSync(object));
  let next = 0;
  let done = queue.length - stale.length;
  onProgress(done, queue.length);
  const worker = async () => {
    while (next < stale.length) {
      const { file, extra, object } = stale[next++];
      await run(compiler.name, [...compiler.args, ...flags, ...extra, "-c", file, "-o", `${object}.new`]);
      renameSync(`${object}.new`, object);
      onProgress(++done, queue.length);
    }
  };
  const { jobs = availableParallelism() } = target;
  process.setMaxListeners(jobs + 16);
  await Promise.all(Array.from({ length: jobs }, worker));
  const objects = queue.map(({ object }) => object);
  await run(compiler.name, [...compiler.args, ...flags, ...linkFlags(target), ...objects, "-o", `${library}.new`]);
  renameSync(`${library}.new`, library); // atomic: a process that has the old one loaded keeps it
  for (const file of filesIn(objectDir, [""]))
    if (!objects.includes(file) && !file.endsWith(".cpp")) rmSync(file, { force: true });
}

function linkFlags({ kind, platform, link = [] }) {
  if (kind !== "library") return ["-pthread", ...link];
  if (platform === "wasm") return link;
  // nodelete: a worker thread that dies unloads its libraries while our own threads may still run in this one.
  const elf = ["-Wl,-z,nodelete", ...["--version-script", EXPORTS].flatMap((word) => ["-Xlinker", word])];
  return ["-shared", "-pthread", ...(platform === "linux" ? elf : []), ...link];
}

/** The library's file name on a system. */
export function libraryName(platform) {
  return platform === "win32" ? "pagoda_cpu.dll" : "pagoda_cpu.so";
}
