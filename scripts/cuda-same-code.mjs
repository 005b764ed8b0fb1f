// Which kernels of a CUDA source are, byte for byte, the machine code that another commit compiles to: what a change leaves as it was needs
// no new run on a GPU. Needs nvcc, and tsc to have run.
//   node scripts/cuda-same-code.mjs [--base HEAD] [--arch sm_90a,sm_80] [SOURCE...]      attention-decode rotary ...; none: all
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { base: { type: "string", default: "HEAD" }, arch: { type: "string", default: "sm_90a,sm_80" } },
});
const compiled = join(root, "dist", "src", "device", "cuda", "driver", "sources.js");
const { isFor, OPTIONS, sourceNames } = await import(pathToFileURL(compiled).href);
const work = mkdtempSync(join(tmpdir(), "pagoda-same-code-"));

/** The folder of the base's kernels, taken out of git. */
function baseFolder() {
  const archive = execFileSync("git", ["-C", root, "archive", values.base, "native/cuda"], { maxBuffer: 1 << 28 });
  execFileSync("tar", ["-x", "-C", work], { input: archive });
  return join(work, "native", "cuda");
}

/** name -> what a kernel's launch depends on: its code, its registers and barriers, and the constants and shared memory it names. */
function kernelsOf(folder, name, arch) {
  const image = join(work, `${name}.cubin`);
  const args = ["-cubin", `-arch=${arch}`, ...OPTIONS, join(folder, `${name}.cu`), "-o", image];
  const { status, stderr } = spawnSync("nvcc", args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${name} for ${arch}: ${stderr}`);
  const kernels = new Map();
  for (const { name: section, type, info, size, bytes } of sectionsOf(readFileSync(image))) {
    const [, kind, kernel] = /^\.(text|nv\.constant\d|nv\.shared)\.(.+)$/.exec(section) ?? [];
    if (kernel === undefined) continue;
    const NO_BITS = 8;
    const registers = kind === "text" ? info >>> 24 : 0; // the rest of `info` is an index of a symbol
    const facts = `${kind} ${size} ${registers} ${type === NO_BITS ? "" : bytes.toString("hex")}`;
    kernels.set(kernel, [...(kernels.get(kernel) ?? []), facts].sort());
  }
  for (const [kernel, facts] of kernels) if (!facts.some((fact) => fact.startsWith("text"))) kernels.delete(kernel);
  return kernels;
}

/** Sections of a 64-bit little-endian ELF file. */
function sectionsOf(file) {
  const at = Number(file.readBigUInt64LE(0x28));
  const [entry, count, names] = [0x3a, 0x3c, 0x3e].map((offset) => file.readUInt16LE(offset));
  const headers = Array.from({ length: count }, (_, i) => {
    const header = file.subarray(at + i * entry, at + (i + 1) * entry);
    const [offset, size] = [0x18, 0x20].map((place) => Number(header.readBigUInt64LE(place)));
    const u32 = (place) => header.readUInt32LE(place);
    const bytes = file.subarray(offset, offset + size);
    return { nameAt: u32(0), type: u32(4), info: u32(0x2c), size, bytes };
  });
  const text = headers[names].bytes;
  return headers.map((header) => ({
    ...header,
    name: text.toString("latin1", header.nameAt, text.indexOf(0, header.nameAt)),
  }));
}

const here = join(root, "native", "cuda");
const base = baseFolder();
const sources = positionals.length > 0 ? positionals : sourceNames();
let differing = 0;
for (const name of sources) {
  for (const arch of values.arch.split(",")) {
    if (!isFor(name, arch)) continue;
    const [before, after] = [base, here].map((folder) => kernelsOf(folder, name, arch));
    const isSame = (kernel) => after.get(kernel)?.join() === before.get(kernel)?.join();
    const other = [...before.keys()].filter((kernel) => !isSame(kernel));
    const added = [...after.keys()].filter((kernel) => !before.has(kernel));
    differing += other.length;
    process.stdout.write(
      `${name} ${arch}: ${before.size - other.length} of ${before.size} kernels are the same code\n`,
    );
    if (other.length > 0) process.stdout.write(`  other: ${other.join(" ")}\n`);
    if (added.length > 0) process.stdout.write(`  new: ${added.join(" ")}\n`);
  }
}
rmSync(work, { recursive: true });
process.exit(differing === 0 ? 0 : 1);
