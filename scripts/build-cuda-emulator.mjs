// Builds the kernels of native/cuda for the CPU, with a driver of their own (test/cuda/emulator): the cuda device then runs without
// a GPU, slowly, for tests of index arithmetic. Prints the library's path.
//   node scripts/build-cuda-emulator.mjs
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const kernels = join(root, "native", "cuda");
const emulator = join(root, "test", "cuda", "emulator");
const outDir = join(root, "build", "cuda-emulator");
const FLAGS = ["-std=c++17", "-O2", "-fPIC", "-ffp-contract=off", "-w", `-I${emulator}`, `-I${kernels}`];

function filesIn(folder, ending) {
  return readdirSync(folder)
    .filter((name) => name.endsWith(ending))
    .sort()
    .map((name) => join(folder, name));
}

function run(args) {
  const { status, stderr } = spawnSync(process.env.CXX ?? "g++", args, { encoding: "utf8" });
  if (status === 0) return;
  process.stderr.write(stderr ?? "g++ is not here\n");
  process.exit(1);
}

mkdirSync(outDir, { recursive: true });
const headers = createHash("sha256").update(FLAGS.join(" "));
for (const file of filesIn(emulator, ".h")) headers.update(readFileSync(file));
const common = headers.digest("hex");

/** A source with the kernels' headers that it includes: what an object is made from. */
function textOf(file, seen = new Set()) {
  if (seen.has(file)) return "";
  seen.add(file);
  const text = readFileSync(file, "utf8");
  const included = [...text.matchAll(/^#include "(.+\.cuh)"/gm)].map(([, name]) => textOf(join(kernels, name), seen));
  return text + included.join("");
}

const sources = [...filesIn(kernels, ".cu"), ...filesIn(emulator, ".cpp")];
const objects = sources.map((file) => {
  const hash = createHash("sha256").update(common).update(textOf(file)).digest("hex").slice(0, 16);
  return { file, object: join(outDir, `${hash}.o`) };
});
for (const { file, object } of objects) {
  if (existsSync(object)) continue;
  run([...FLAGS, "-x", "c++", "-c", file, "-o", `${object}.new`]);
  renameSync(`${object}.new`, object);
}
const target = join(outDir, "pagoda_cuda_emulator.so");
run(["-shared", "-o", `${target}.new`, ...objects.map(({ object }) => object), "-ldl"]);
renameSync(`${target}.new`, target);
process.stdout.write(`${target}\n`);
