// The inner loops of the arm64 matmul kernels as they were compiled: how many multiply-adds, vector loads and spills (docs/laboratory/kernel-measurements.md).
//   npm run build:packages linux-arm64
//   node scripts/packages/arm-loops.mjs [--show]               of the package's objects; --show prints the instructions too
//   node scripts/packages/arm-loops.mjs OBJECT FUNCTION...     of any object file, by part of the function's name
// Needs: apt-get install binutils-aarch64-linux-gnu.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { root } from "../native/compile.mjs";

/** [label, object, part of the function's name]; numbers in them are those of enum Encoding, of the tile's rows and its vectors. */
const KERNELS = [
  ["q4_0, i8mm", "i8mm-pair-matmul", "run_tile<4>"],
  ["q8_0, i8mm", "i8mm-pair-matmul", "run_tile<3>"],
  ["q4_0, dotprod", "dotprod-matmul-int-common", "int_tile<4, 4, 2>"],
  ["q8_0, dotprod", "dotprod-matmul-int-common", "int_tile<3, 4, 2>"],
  ["f16, 12 rows", "dotprod-matmul-float", "F16Weights, 12, 2>"],
  ["bf16, 12 rows", "dotprod-matmul-float", "Bf16Weights, 12, 2>"],
];
/** Multiply-adds of an instruction of 16 bytes. */
const PRODUCTS = { smmla: 32, sdot: 16, fmla: 4 };

function instructionsOf(object, part) {
  const { stdout, error } = spawnSync("aarch64-linux-gnu-objdump", ["-d", "-C", "--no-show-raw-insn", object], {
    encoding: "utf8",
    maxBuffer: 2 ** 28,
  });
  if (error) throw error;
  const text = stdout.split(/\n(?=[0-9a-f]{16} <)/).find((one) => one.slice(0, one.indexOf("\n")).includes(part));
  if (text === undefined) throw new Error(`${object} has no ${part}`);
  return [...text.matchAll(/^ *([0-9a-f]+):\s+(\S+)\s*(.*)$/gm)].map(([line, at, name, args]) => ({
    line,
    at: Number.parseInt(at, 16),
    name,
    args,
  }));
}

/** From the target of a branch backwards to the branch: of those with most products of one kind the shortest. */
function innerLoop(code) {
  const loops = code.flatMap(({ at, name, args }) => {
    const to = /^(b|b\.\w+|t?cbn?z|tbn?z)$/.test(name)
      ? Number.parseInt(/([0-9a-f]+) </.exec(args)?.[1], 16)
      : Number.NaN;
    return to <= at ? [code.filter((one) => one.at >= to && one.at <= at)] : [];
  });
  const most = (loop) => Math.max(...Object.keys(PRODUCTS).map((name) => count(loop, name)));
  return loops.sort((a, b) => most(b) - most(a) || a.length - b.length)[0];
}

const count = (loop, name) => loop.filter((one) => one.name === name).length;

/** Registers of 8 and 16 bytes that an instruction loads or stores: "ldp q0, q1", "ld1 {v0.16b-v3.16b}". */
function vectorsOf({ args }) {
  const registers = args.split("[")[0];
  const [, from, to] = /v(\d+)\.\w+-v(\d+)/.exec(registers) ?? [];
  return from === undefined ? (registers.match(/\b[qdv]\d+/g) ?? []).length : to - from + 1;
}

function report(label, object, part) {
  const loop = innerLoop(instructionsOf(object, part));
  const moved = (names, isStack) =>
    loop
      .filter(({ name, args }) => names.test(name) && /\[(sp|x29)/.test(args) === isStack)
      .reduce((sum, one) => sum + vectorsOf(one), 0);
  // Integer products are summed up exactly; what is fused in floats beside them applies the factors.
  const name = Object.keys(PRODUCTS).find((one) => count(loop, one) > 0);
  console.log(
    `${label}: ${loop.length} instructions, ${count(loop, name)} ${name} (${count(loop, name) * PRODUCTS[name]} multiply-adds), ` +
      `${moved(/^ld/, false)} vectors loaded, ${moved(/^st/, true)} put on the stack and ${moved(/^ld/, true)} taken from it`,
  );
  if (process.argv.includes("--show")) console.log(loop.map(({ line }) => line).join("\n"));
}

const [object, ...parts] = process.argv.slice(2).filter((arg) => arg !== "--show");
for (const part of parts) report(part, object, part);
if (object === undefined) {
  const folder = join(root, "build", "package-linux-arm64", "objects");
  const files = readdirSync(folder);
  for (const [label, name, part] of KERNELS)
    report(
      label,
      join(
        folder,
        files.find((file) => file.startsWith(`${name}.cpp-`)),
      ),
      part,
    );
}
