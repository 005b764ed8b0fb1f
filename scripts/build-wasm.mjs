// Builds native/cpu as WebAssembly: native/wasm/simd128.wasm and relaxed.wasm, which are committed, so that nobody else needs the tools:
//   apt-get install clang-19 lld-19 wasi-libc libc++-19-dev-wasm32 libc++abi-19-dev-wasm32 libclang-rt-19-dev-wasm32
//   npm run build:wasm
// sources.json says what they were made from; a test compares it with the sources.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { compile, findCompiler, keyOf, root } from "./native/compile.mjs";

const folder = join(root, "native", "wasm");
export const TARGETS = {
  simd128: { arch: "wasm", platform: "wasm", kind: "library" },
  relaxed: { arch: "wasm-relaxed", platform: "wasm", kind: "library" },
};

/** What the sources are now, by name of the module. */
export function sourceKeys() {
  return Object.fromEntries(Object.entries(TARGETS).map(([name, target]) => [name, keyOf(target, "")]));
}

/** The functions of the header, and what the host needs to start workers. */
function linkFlags() {
  const declared = ["include/pagoda_cpu.h", "src/wasm.cpp"].map((name) =>
    readFileSync(join(root, "native", "cpu", name), "utf8"),
  );
  const names = [...declared.join("\n").matchAll(/^PG_API .*?(pg_\w+)\(/gm)].map(([, name]) => name);
  const wrapped = ["malloc", "free", "calloc", "realloc", "posix_memalign"];
  return [
    "-nostartfiles",
    "-Wl,--no-entry,--strip-all,--import-memory,--shared-memory,--max-memory=4294967296",
    "-Wl,--no-check-features", // the C library was built without atomics; wasm.cpp guards its heap
    "-Wl,-z,stack-size=1048576,--stack-first",
    `-Wl,${wrapped.map((name) => `--wrap=${name}`).join(",")}`,
    `-Wl,${[...names, "__stack_pointer", "__wasm_init_tls", "__tls_size"].map((name) => `--export=${name}`).join(",")}`,
  ];
}

async function main() {
  const compiler = findCompiler(process.env.CXX ? [process.env.CXX] : ["clang++-19", "clang++-20", "clang++"]);
  if (compiler === null) throw new Error("no clang++ is here: the head of this file says what to install");
  mkdirSync(folder, { recursive: true });
  for (const [name, target] of Object.entries(TARGETS)) {
    const objects = join(root, "build", `native-${target.arch}`);
    await compile({ ...target, link: linkFlags() }, compiler, objects, join(folder, `${name}.wasm`), (done, total) =>
      process.stderr.write(`\r${name}: ${done} of ${total}${done === total ? "\n" : ""}`),
    );
  }
  writeFileSync(
    join(folder, "sources.json"),
    `${JSON.stringify({ compiler: compiler.version, ...sourceKeys() }, null, 2)}\n`,
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
