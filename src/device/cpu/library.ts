// Finds the native library: a package made for this system, else what was compiled in the repository or in the user's cache folder. Where
// there is none an engine runs on WebAssembly at once, and the library is compiled in the background for the next start.

import { existsSync, readdirSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { errorFor } from "../../core/errors.js";
import type { NativeLibrary } from "./abi.js";
import { buildBehind, buildLibrary } from "./build-library.js";
import { openLibrary } from "./koffi-abi.js";

/** The package's root: this file is dist/src/device/cpu/library.js in it. */
const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..", "..");
const BUILD_SCRIPT = join(ROOT, "scripts", "build-native.mjs");
/** What compiles the library, wherever the package lies. */
export const BUILD_COMMAND = `node ${BUILD_SCRIPT}`;
const FILE = process.platform === "win32" ? "pagoda_cpu.dll" : "pagoda_cpu.so";
const BUILT = join(ROOT, "build", process.arch === "x64" ? "native" : `native-${process.arch}`, FILE);
const OUTDATED = "compiled here, from older sources";
/** Folders the library is made of; native/cpu/test is not. */
const SOURCES = ["include", "src"].map((name) => join(ROOT, "native", "cpu", name));

export interface LibraryChoice {
  readonly path: string;
  readonly why: string;
}

let opened: NativeLibrary | null = null;
let choice: LibraryChoice | null = null;
let unusable: string | null = null;

/** The library in use, and why this one; null before one is. */
export function libraryChoice(): LibraryChoice | null {
  return choice;
}

/** Which package is installed and cannot be loaded here, and why; null where there is none. */
export function unusablePackage(): string | null {
  return unusable;
}

/** Throws DeviceError device_unavailable when the library is not at hand. */
export function loadLibrary(): NativeLibrary {
  if (opened !== null) return opened;
  const prebuilt = openPrebuilt();
  if (prebuilt !== null) return prebuilt;
  if (isCurrent()) return open(BUILT, "compiled here");
  const state = existsSync(BUILT) ? "is older than its sources" : "is not built";
  const remedy = `with g++ or clang++ installed, ${BUILD_COMMAND} builds it.`;
  throw errorFor("device_unavailable", { device: "cpu", reason: `the native library ${state}; ${remedy}` });
}

/** Makes sure that loadLibrary() has one, compiling it in a process of its own where there is none. Says on stderr what it does. */
export async function ensureLibrary(): Promise<void> {
  if (await findLibrary()) return;
  if (unusable !== null) process.stderr.write(`pagoda: ${unusable}\n`);
  const path = await buildLibrary(BUILD_SCRIPT);
  if (path !== "") open(path, "compiled here");
  else if (existsSync(BUILT)) open(BUILT, OUTDATED);
}

/** Whether loadLibrary() has one, compiled before and in the user's cache folder too. Compiles nothing. */
export async function findLibrary(): Promise<boolean> {
  if (opened !== null || openPrebuilt() !== null) return true;
  if (isCurrent()) return true;
  const { folder, compiler } = await ofScripts();
  const path = join(folder, FILE);
  if (existsSync(path)) open(path, "compiled before, in the user's cache folder");
  else if (compiler() === null && existsSync(BUILT)) open(BUILT, OUTDATED);
  return opened !== null;
}

export type BackgroundBuild = "started" | "off" | "no-compiler" | "failed";

/** Compiles the library for the next start, in a process that outlives this one. */
export async function compileForNextStart(): Promise<BackgroundBuild> {
  const state = await buildState();
  if (state !== "started") return state;
  buildBehind(BUILD_SCRIPT);
  return state;
}

/** What compileForNextStart() would say. */
export async function buildState(): Promise<BackgroundBuild> {
  const { folder, failed, compiler } = await ofScripts();
  if (process.env.PAGODA_COMPILE === "0") return "off";
  if (compiler() === null) return "no-compiler";
  return existsSync(join(folder, failed)) ? "failed" : "started";
}

/** What the build scripts say of this machine; they are part of the package and not compiled. */
async function ofScripts(): Promise<{ folder: string; failed: string; compiler: () => string | null }> {
  const load = (name: string) => import(pathToFileURL(join(ROOT, "scripts", "native", name)).href);
  const { cachedFolder, COMPILERS, findCompiler } = await load("compile.mjs");
  const { FAILED } = await load("place.mjs");
  const target = { arch: process.arch, platform: process.platform, kind: "library", twin: false };
  return {
    folder: cachedFolder(target) as string,
    failed: FAILED as string,
    compiler: () => (findCompiler(COMPILERS)?.version as string | undefined) ?? null,
  };
}

function open(path: string, why: string): NativeLibrary {
  opened = openLibrary(path);
  choice = { path, why };
  return opened;
}

/** Packages of this system, each with the library in it; one that cannot be loaded (another libc) is passed over. */
function openPrebuilt(): NativeLibrary | null {
  const require = createRequire(import.meta.url);
  const system = `${process.platform}-${process.arch}`;
  for (const name of [`@pagoda/native-${system}`, `@pagoda/native-${system}-musl`]) {
    let folder: string;
    try {
      folder = dirname(require.resolve(`${name}/package.json`));
    } catch {
      continue; // not installed
    }
    try {
      return open(join(folder, FILE), `prebuilt, from ${name}`);
    } catch (error) {
      unusable = `${name} is installed and not used: ${(error as Error).message}`;
    }
  }
  return null;
}

function isCurrent(): boolean {
  const built = statSync(BUILT, { throwIfNoEntry: false })?.mtimeMs;
  if (built === undefined) return false;
  for (const folder of SOURCES) {
    for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
      if (/\.(cpp|h)$/.test(name) && statSync(join(folder, name)).mtimeMs > built) return false;
    }
  }
  return true;
}
