// Norms: one workgroup for each run of columns of a row. Thread l has columns 4 l to 4 l + 3, then those 1,024 further on, and so on; it sums
// them in their order, then one tree. The first 4,096 columns stay in registers, so that all their loads are under way at once.

import { type Kernel, kernel, tree } from "../kernel.js";
import { ROUND_FOUR } from "./rounding.js";

const THREADS = 256;
const STEP = 4 * THREADS;
/** Steps whose columns stay in registers. */
const KEPT = [0, 1, 2, 3] as const;
const AXES = ["x", "y", "z", "w"] as const;

/** WGSL: four numbers from `at` on, 0 beyond the columns. `c` is the first one's column. */
const load = (buffer: string, at: string): string =>
  `vec4f(${AXES.map((_, i) => `select(0.0, $${buffer}[${at} + min(${i}u, p.cols - 1u - min(c, p.cols - 1u))], c + ${i}u < p.cols)`).join(", ")})`;
const store = (buffer: string, at: string, v: string): string =>
  AXES.map((axis, i) => `if (c + ${i}u < p.cols) { $${buffer}[${at} + ${i}u] = ${v}.${axis}; }`).join(" ");

/** `adds`: residual += x first, and the residual is what is normed. `rounds`: products with codes follow, the rows are rounded too. */
function norm(name: string, isCentred: boolean, adds: boolean, rounds: boolean): Kernel {
  const source = adds ? "residual" : "x";
  const kept = (line: (v: string) => string): string =>
    KEPT.map((k) => `if (${k * STEP}u < p.cols) { let c = ${k * STEP}u + 4u * l; ${line(`v${k}`)} }`).join("\n  ");
  const further = (line: string): string =>
    `for (var base = ${KEPT.length * STEP}u; base < p.cols; base += ${STEP}u) { let c = base + 4u * l; var v = ${load(source, "(from0 + c)")}; ${line} }`;
  const all = (line: (v: string) => string): string => `${kept(line)}\n  ${further(line("v"))}`;
  const add = (v: string): string => `${v} = ${v} + ${load("x", "(p.xAt + g.y * p.xStride + c)")};`;
  const keep = (v: string): string => store("residual", "(from0 + c)", v);
  const sum = (v: string): string => AXES.map((i) => `s = s + ${v}.${i};`).join(" ");
  const squares = (v: string): string =>
    AXES.map((axis, i) =>
      isCentred
        ? `{ let d = select(0.0, ${v}.${axis} - mean, c + ${i}u < p.cols); s = fma(d, d, s); }`
        : `s = fma(${v}.${axis}, ${v}.${axis}, s);`,
    ).join(" ");
  const finish = (v: string): string => {
    const weight = load("weight", "(w + c)");
    const value = isCentred
      ? `fma((${v} - mean) * factor, ${weight}, ${load("bias", "(p.biasAt + g.x * p.weightGroup + c)")})`
      : `${v} * factor * ${weight}`;
    return `let n = ${value}; ${store("out", "(to + c)", "n")} ${rounds ? "roundFour(l, n, (g.y * p.cols + c) / 4u, c < p.cols);" : ""}`;
  };
  return kernel(
    `${name}${rounds ? "-rounds" : ""}`,
    `out:rw:f32 ${adds ? "residual:rw:f32 " : ""}x:r:f32 weight:r:f32${isCentred ? " bias:r:f32" : ""}${rounds ? " codes:rw:u32 m:rw:vec2u" : ""}`,
    `cols outAt outStride ${adds ? "residualAt residualStride " : ""}xAt xStride weightAt weightGroup biasAt eps:f`,
    `${rounds ? ROUND_FOUR(THREADS) : ""}
var<workgroup> sums: array<f32, ${THREADS}>;
@compute @workgroup_size(${THREADS}) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let from0 = p.${source}At + g.y * p.${source}Stride + g.x * p.cols;
  let to = p.outAt + g.y * p.outStride + g.x * p.cols; let w = p.weightAt + g.x * p.weightGroup;
  var mean = 0.0; var s = 0.0;
  ${KEPT.map((k) => `var v${k} = vec4f(0.0);`).join(" ")}
  ${kept((v) => `${v} = ${load(source, "(from0 + c)")};`)}
  ${adds ? `${kept(add)}\n  ${kept(keep)}\n  ${further(`${add("v")} ${keep("v")}`)}` : ""}
  ${
    isCentred
      ? `${all(sum)}
  sums[l] = s; ${tree(THREADS, "sums")}
  mean = sums[0] / f32(p.cols); s = 0.0;
  workgroupBarrier();`
      : ""
  }
  ${all(squares)}
  sums[l] = s; ${tree(THREADS, "sums")}
  let factor = 1.0 / sqrt(sums[0] / f32(p.cols) + p.eps);
  ${all(finish)}
}`,
  );
}

interface NormKernels {
  readonly plain: Kernel;
  readonly rounds: Kernel;
}
const both = (name: string, isCentred: boolean, adds: boolean): NormKernels => ({
  plain: norm(name, isCentred, adds, false),
  rounds: norm(name, isCentred, adds, true),
});

export const RMS_NORM = both("rmsNorm", false, false);
export const ADD_RMS_NORM = both("addRmsNorm", false, true);
export const LAYER_NORM = both("layerNorm", true, false);
export type { NormKernels };
