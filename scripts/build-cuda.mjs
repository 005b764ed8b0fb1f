// Compiles native/cuda/*.cu with nvcc into build/cuda/, one compressed cubin per source and architecture, and PTX for GPUs that are not
// among them; the cuda device prefers both to compiling with NVRTC at first use. Without nvcc: one line, exit code 0.
//   node scripts/build-cuda.mjs                  all architectures
//   node scripts/build-cuda.mjs sm_90a           one; compute_80: the PTX
//   node scripts/build-cuda.mjs --check sm_90a   compile, print what ptxas says of registers and spills; of what was checked
//                                                before in any tree, what it said then (kept in the user's cache folder)
//   --without WORD                               leave out sources with this word in their name
//   --spills-of WORD,WORD                        with --check: of other sources only that they compile, in a fraction of the time
//                                                where nvcc can leave its optimisations out
import { spawn, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { cacheFolder } from "./native/place.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const compiled = join(root, "dist", "src", "device", "cuda", "driver", "sources.js");
const isCheck = process.argv.includes("--check");
const named = process.argv.slice(2).filter((arg) => /^(sm|compute)_/.test(arg));
const without = process.argv.indexOf("--without");
const isWanted = (name) => without < 0 || !name.includes(process.argv[without + 1]);
const spillsOf = process.argv.includes("--spills-of")
  ? process.argv[process.argv.indexOf("--spills-of") + 1].split(",")
  : [""];
const isQuick = (name) => isCheck && !spillsOf.some((word) => name.includes(word));
const nvcc = process.env.NVCC ?? "nvcc";
const version = spawnSync(nvcc, ["--version"], { encoding: "utf8" });
if (version.status !== 0) {
  process.stdout.write("build-cuda: nvcc is not here; the cuda device compiles its kernels with NVRTC at first use.\n");
  process.exit(0);
}
if (!existsSync(compiled)) {
  process.stderr.write("build-cuda: run tsc first\n");
  process.exit(1);
}
const { ARCHITECTURES, PTX, sourceNames, sourceText, imageName, isFor, OPTIONS } = await import(
  pathToFileURL(compiled).href
);
const architectures = named.length > 0 ? named : [...ARCHITECTURES, PTX];

const toolkit = /V[\d.]+/.exec(version.stdout)?.[0] ?? "unknown";
const outDir = isCheck ? join(cacheFolder(), `cuda-check-${toolkit}`) : join(root, "build", "cuda");
const quickest = spawnSync(nvcc, ["--help"], { encoding: "utf8" }).stdout.includes("--Ofast-compile")
  ? ["-Ofc=max"]
  : [];
const work = mkdtempSync(join(tmpdir(), "pagoda-cuda-"));
mkdirSync(outDir, { recursive: true });
const jobs = [];
const wanted = new Set();
for (const arch of architectures) {
  for (const name of sourceNames().filter((source) => isFor(source, arch) && isWanted(source))) {
    const text = sourceText(name);
    const target = `${imageName(name, text, arch)}.${isCheck ? `${isQuick(name) ? "quick" : "spills"}.txt` : "gz"}`;
    wanted.add(target);
    if (!existsSync(join(outDir, target))) jobs.push({ name, arch, text, target });
  }
}

jobs.sort((a, b) => isQuick(a.name) - isQuick(b.name)); // the longest first

function compile({ name, arch, text, target }) {
  const source = join(work, `${name}-${arch}.cu`);
  const image = join(work, target.replace(/\.\w+$/, ""));
  writeFileSync(source, text);
  const kind = arch === PTX ? ["-ptx"] : ["-cubin", "--split-compile", "0", "-Xptxas", "-v"];
  const args = [...kind, ...(isQuick(name) ? quickest : []), `-arch=${arch}`, ...OPTIONS, source, "-o", image];
  return new Promise((resolve) => {
    const child = spawn(nvcc, args, { stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    child.stdout.on("data", (data) => (said += data));
    child.stderr.on("data", (data) => (said += data));
    child.on("exit", (code) => {
      if (code !== 0) process.stderr.write(`${name} for ${arch}:\n${said}\n`);
      else {
        const kept = isCheck ? report(name, arch, said) : gzipSync(readFileSync(image), { level: 9 });
        const half = join(outDir, `${target}.${process.pid}`);
        writeFileSync(half, kept);
        renameSync(half, join(outDir, target));
      }
      resolve(code === 0);
    });
  });
}

/** ptxas says it of a kernel, then of every function that the kernel calls. */
const SPILL = /\b[1-9]\d* bytes spill stores/;

/** One line per kernel that spills or that ptxas warns about; C75xx says that wgmma was serialised. */
function report(name, arch, said) {
  const kernels = said.split("Compiling entry function").slice(1);
  if (isQuick(name)) return `${name} for ${arch}: ${kernels.length} kernels\n`;
  const spilling = kernels.filter((text) => SPILL.test(text));
  const warnings = said.split("\n").filter((line) => /warning|C75\d\d/.test(line));
  const lines = [
    `${name} for ${arch}: ${kernels.length} kernels, ${spilling.length} spill, ${warnings.length} warnings`,
    ...spilling.map((text) => `  ${/'(\w+)'/.exec(text)?.[1]}: ${SPILL.exec(text)?.[0]}`),
    ...warnings.map((line) => `  ${line}`),
  ];
  return `${lines.join("\n")}\n`;
}

let next = 0;
let isOk = true;
const worker = async () => {
  while (next < jobs.length) if (!(await compile(jobs[next++]))) isOk = false;
};
await Promise.all(Array.from({ length: Math.min(jobs.length, availableParallelism()) }, worker));
rmSync(work, { recursive: true });
if (isOk && without < 0 && !isCheck && named.length === 0) {
  for (const file of readdirSync(outDir)) if (!wanted.has(file)) rmSync(join(outDir, file));
}
if (isOk && isCheck) for (const file of wanted) process.stdout.write(readFileSync(join(outDir, file)));
process.exit(isOk ? 0 : 1);
