// The products of many tokens: a workgroup brings a block of both matrices to its memory (the order of sums: product.ts).

import { type Kernel, kernel } from "../kernel.js";
import { CHAINS, declare, type Product, SIDE, times } from "./product.js";

/** How the threads of a tile share its work: SIDE chains at the same time, and a thread has one of them of `rows` x `tokens` outputs. */
export interface TileShape {
  readonly rows: number;
  readonly tokens: number;
  /** Threads along outputs and along tokens. */
  readonly across: number;
  readonly down: number;
  readonly prefetch: boolean;
}

/** The smaller one takes 8 KiB of workgroup memory, and compiles in moments on adapters in software. */
export const TILE_SHAPES = {
  large: { rows: 4, tokens: 8, across: 8, down: 4, prefetch: false },
  small: { rows: 2, tokens: 2, across: 8, down: 4, prefetch: false },
} as const satisfies Record<string, TileShape>;
export type TileSize = keyof typeof TILE_SHAPES;

/** Outputs and tokens of a workgroup. */
export const tileSize = ({ rows, tokens, across, down }: TileShape): { height: number; depth: number } => ({
  height: rows * across,
  depth: tokens * down,
});

/** Many tokens: groups of threads have the same outputs, each its own chains; at the end their sums are added. */
export function tile(product: Product, shape: TileShape): Kernel {
  const { rows, tokens, across, down, prefetch } = shape;
  const { height, depth } = tileSize(shape);
  const { vector, tile: form } = product;
  const { factors } = form;
  const each = across * down;
  const threads = each * SIDE;
  const [wPitch, xPitch] = [height + 1, depth + 1];
  const pieces = (count: number, what: (i: number) => string): string =>
    times(Math.ceil((count * SIDE) / threads), what);
  const inPlace = (i: number, count: number, code: string): string =>
    (i + 1) * threads <= count * SIDE ? code : `if (l < ${count * SIDE - i * threads}u) { ${code} }`;
  const zero = `${vector}(0)`;
  const fetched = (name: string, type: string): string =>
    `var a${name}: ${vector}; var b${name}: ${vector};${factors === null ? "" : ` var f${name}: ${type};`}`;
  const bring = (name: string, isThere: string, [a, b, f]: readonly [string, string, string], type: string): string =>
    `a${name} = ${zero}; b${name} = ${zero};${factors === null ? "" : ` f${name} = ${type}(0);`}
      if (${isThere}) { a${name} = ${a}; b${name} = ${b};${factors === null ? "" : ` f${name} = ${f};`} }`;
  const fetch = `
    { let u = u0 + l % ${SIDE}u;
      ${pieces(height, (i) => {
        const row = `(g.y * ${height}u + (l + ${i * threads}u) / ${SIDE}u)`;
        return bring(`w${i}`, `u < p.units && ${row} < p.rows`, form.weight(row, "u"), factors?.weight ?? "");
      })}
      ${pieces(depth, (i) => {
        const token = `(g.x * ${depth}u + (l + ${i * threads}u) / ${SIDE}u)`;
        return bring(`x${i}`, `u < p.units && ${token} < p.n`, form.x(token, "u"), factors?.x ?? "");
      })} }`;
  const put = (kind: "w" | "x", count: number, pitch: number): string =>
    pieces(count, (i) =>
      inPlace(
        i,
        count,
        `let at${kind}${i} = (l % ${SIDE}u) * ${pitch}u + (l + ${i * threads}u) / ${SIDE}u;
    ${kind}s[at${kind}${i}] = a${kind}${i}; ${kind}s[at${kind}${i} + ${SIDE * pitch}u] = b${kind}${i};${factors === null ? "" : ` f${kind}s[at${kind}${i}] = f${kind}${i};`}`,
      ),
    );
  const shared = (kind: "w" | "x", at: string, pitch: number): readonly [string, string, string] => [
    `${kind}s[${at}]`,
    `${kind}s[${at} + ${SIDE * pitch}u]`,
    `f${kind}s[${at}]`,
  ];
  const quads = Math.ceil(tokens / 4);
  const kept = (value: string): string => (vector === "vec4u" ? `bitcast<vec4u>(vec4f(${value}))` : `vec4f(${value})`);
  const four = (a: number, q: number): string =>
    kept([0, 1, 2, 3].map((i) => (4 * q + i < tokens ? `acc${a}_${4 * q + i}` : "0.0")).join(", "));
  // A thread adds the chains of `turns` outputs of each row of the threads.
  const turns = Math.ceil((each * tokens) / threads);
  const mine = (a: number, what: (name: string) => string): string =>
    times(turns, (j) => {
      const code = `let i = l + ${j * threads}u; let q = i % ${each}u; let b = i / ${each}u; ${what(`total${a}_${j}`)}`;
      return (j + 1) * threads <= each * tokens
        ? `{ ${code} }`
        : `if (l < ${each * tokens - j * threads}u) { ${code} }`;
    });
  return kernel(
    `tile-${product.name}`,
    product.operands,
    product.params,
    `${product.code}
var<workgroup> ws: array<${vector}, ${Math.max(2 * SIDE * wPitch, threads * quads)}>; // [2][chain][output]
var<workgroup> xs: array<${vector}, ${2 * SIDE * xPitch}>; // [2][chain][token]
${factors === null ? "" : `var<workgroup> fws: array<${factors.weight}, ${SIDE * wPitch}>; var<workgroup> fxs: array<${factors.x}, ${SIDE * xPitch}>;`}
@compute @workgroup_size(${threads}) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let chain = l / ${each}u; let r = l % ${across}u; let t = l % ${each}u / ${across}u;
  ${times(rows, (a) => times(turns, (j) => `var total${a}_${j} = 0.0;`))}
  ${pieces(height, (i) => fetched(`w${i}`, factors?.weight ?? ""))}
  ${pieces(depth, (i) => fetched(`x${i}`, factors?.x ?? ""))}
  for (var begin = 0u; begin < ${CHAINS}u; begin += ${SIDE}u) {
  ${times(tokens, (b) => times(rows, (a) => `var acc${a}_${b} = 0.0;`))}
  var u0 = begin;
  ${prefetch ? fetch : ""}
  while (u0 < p.units) {
    ${prefetch ? "" : fetch}
    workgroupBarrier();
    ${put("w", height, wPitch)}
    ${put("x", depth, xPitch)}
    workgroupBarrier();
    u0 += ${CHAINS}u;
    ${prefetch ? fetch : ""}
    ${times(rows, (a) => declare(`c${a}`, shared("w", `chain * ${wPitch}u + ${a * across}u + r`, wPitch), form))}
    ${times(
      tokens,
      (b) => `{ ${declare("x", shared("x", `chain * ${xPitch}u + ${b * down}u + t`, xPitch), form)} ${form.prepare("x")}
      ${times(rows, (a) => form.add(`acc${a}_${b}`, `c${a}`, "x"))} }`,
    )}
  }
  ${times(
    rows,
    (a) => `workgroupBarrier();
  ${times(quads, (q) => `ws[l * ${quads}u + ${q}u] = ${four(a, q)};`)}
  workgroupBarrier();
  ${mine(
    a,
    (total) => `var part = 0.0;
    for (var c = 0u; c < ${SIDE}u; c++) { part = part + ${vector === "vec4u" ? "bitcast<f32>" : ""}(ws[(c * ${each}u + q) * ${quads}u + b / 4u][b % 4u]); }
    ${total} = ${total} + part;`,
  )}`,
  )}
  }
  ${times(rows, (a) =>
    mine(
      a,
      (
        total,
      ) => `let row = g.y * ${height}u + ${a * across}u + q % ${across}u; let token = g.x * ${depth}u + b * ${down}u + q / ${across}u;
    if (row < p.rows && token < p.n) { put(token, row, ${total}); }`,
    ),
  )}
}`,
  );
}
