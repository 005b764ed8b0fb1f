// `npm run fuzz -- --what weights` over the native library built with the address and undefined-behaviour sanitizers, on every instruction
// set of this processor (tiles of AMX and AVX-VNNI as their twins over plain memory, which sanitizers see): whatever reads or writes out of
// bounds ends the process with a report and the seed. Flags are those of the fuzz command; `npm run build` comes before. Linux, g++.
//   node scripts/fuzz-sanitized.mjs --count 2000 [--seed S --goldens DIR]
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { compile, findCompiler, libraryName, root } from "./native/compile.mjs";

const compiler = findCompiler([process.env.CXX ?? "g++"]);
if (compiler === null || process.platform !== "linux") throw new Error("this needs g++ on Linux");
const { stdout } = spawnSync(compiler.name, ["-print-file-name=libasan.so"], { encoding: "utf8" });

// The objects of the sanitized tests, linked as a library, which the loader takes for this system's package.
const modules = join(root, "build", "native-sanitized");
const name = `@pagoda/native-${process.platform}-${process.arch}`;
mkdirSync(join(modules, name), { recursive: true });
const target = { arch: process.arch, platform: process.platform, kind: "test", link: ["-shared", "-Wl,-z,nodelete"] };
await compile(target, compiler, modules, join(modules, name, libraryName(process.platform)));
writeFileSync(join(modules, name, "package.json"), JSON.stringify({ name, version: "0.0.0" }));

const fuzz = [join(root, "dist", "test", "fuzz", "fuzz.js"), "--what", "weights", "--every-isa", "--say"];
const { status, signal } = spawnSync(process.execPath, [...fuzz, ...process.argv.slice(2)], {
  stdio: "inherit",
  env: {
    ...process.env,
    NODE_PATH: modules,
    LD_PRELOAD: stdout.trim(),
    // Undefined behaviour is an illegal instruction: the handler says where. Node and V8 leave much behind; frames for use after return are
    // not aligned for AVX-512.
    ASAN_OPTIONS: "handle_sigill=1:detect_leaks=0:detect_stack_use_after_return=0",
  },
});
if (status !== 0)
  console.error(`ended with ${signal ?? status}: the seed printed last, or one that was kept, shows it again`);
process.exitCode = status ?? 1;
