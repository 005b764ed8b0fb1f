// Rotary embedding: both pairings, part of a head, a scale on cos and sin, far positions.

import type { Tolerance } from "./device.js";
import type { Duel } from "./duel.js";
import { numbers, stageTokens, wideRowsOf } from "./inputs.js";

export function rotaryContract(duel: Duel, { elementwise }: Tolerance): void {
  for (const interleaved of [false, true]) {
    for (const [heads, headDim, rotaryDim, offset] of [
      [3, 16, 16, 0],
      [2, 80, 80, 0],
      [4, 48, 32, 0],
      [3, 40, 16, 24],
      [1, 128, 96, 32],
    ] as const) {
      const what = `${heads} heads of ${headDim}, ${rotaryDim} rotated from ${offset}`;
      duel.test("rotary", `${what}, ${interleaved ? "neighbours" : "halves"} paired`, async () => {
        for (const start of [0, 1, 1000, 100_000]) {
          const invFreq = Float32Array.from({ length: rotaryDim / 2 }, (_, i) => 10_000 ** ((-2 * i) / rotaryDim));
          await duel.compare(elementwise, (d) => {
            const staged = stageTokens(d, [3, 1, 5], 10, start);
            const table = d.createRotary({ invFreq, scale: 1.25, interleaved }, 16);
            const x = wideRowsOf(d, 0, 9, heads * headDim, 30);
            d.rotaryTable(table, staged);
            d.rotary(x, table, headDim, offset, staged);
            return x;
          });
        }
      });
    }
  }
  duel.test("writeRotary", "angles of a few tokens in the place of those of their positions", async () => {
    const half = 8;
    const invFreq = Float32Array.from({ length: half }, (_, i) => 10_000 ** (-i / half));
    const angles = numbers(3 * half, 31);
    const cos = angles.map(Math.cos);
    const sin = angles.map(Math.sin);
    await duel.compare(elementwise, (d) => {
      const staged = stageTokens(d, [4, 1, 4], 10, 5);
      const table = d.createRotary({ invFreq, scale: 1, interleaved: false }, 16);
      const x = wideRowsOf(d, 0, 9, 3 * 16, 32);
      d.rotaryTable(table, staged);
      d.writeRotary!(table, 2, cos, sin, 3);
      cos.fill(0); // they have been read
      d.rotary(x, table, 16, 0, staged);
      cos.set(angles.map(Math.cos));
      return x;
    });
  });
}
