// What adapters add: against the reference, and the same bits for a row whichever rows come with it.

import assert from "node:assert/strict";
import type { Device, LowRankSpec, Tensor } from "../../src/device/device.js";
import type { Tolerance } from "./device.js";
import { assertSameBits, type Duel, readAll } from "./duel.js";
import { numbers, wideRowsOf } from "./inputs.js";

const MOST = 40;
const SHAPES = [
  { rank: 1, inputs: 3, cols: 5, firstCol: 0 },
  { rank: 3, inputs: 64, cols: 33, firstCol: 7 },
  { rank: 8, inputs: 127, cols: 256, firstCol: 0 },
  { rank: 17, inputs: 300, cols: 515, firstCol: 2 },
  { rank: 64, inputs: 96, cols: 64, firstCol: 1 },
];

function specOf({ rank, inputs, cols, firstCol }: (typeof SHAPES)[number]): LowRankSpec {
  const [a, b] = [numbers(rank * inputs, 1, 0.2), numbers(cols * rank, 2, 0.5)];
  return { rank, inputs, cols, firstCol, scale: 1.75, a, b };
}

function run(device: Device, spec: LowRankSpec, rows: readonly number[], base = 0): Tensor {
  const lowRank = device.loadLowRank!(spec);
  const out = wideRowsOf(device, 0, MOST, spec.firstCol + spec.cols + 3, 5);
  const x = wideRowsOf(device, 0, MOST, spec.inputs, 6);
  device.addLowRank!(out, x, lowRank, Int32Array.from(rows), 0, rows.length, base);
  device.freeLowRank!(lowRank);
  return out;
}

export function lowRankContract(duel: Duel, tolerance: Tolerance): void {
  const all = Array.from({ length: MOST }, (_, i) => i);
  for (const shape of SHAPES) {
    const spec = specOf(shape);
    const what = `rank ${shape.rank}, ${shape.inputs} inputs, ${shape.cols} columns from ${shape.firstCol} on`;
    duel.test("addLowRank", what, async () => {
      for (const rows of [[2], [0, 3, 39], all.filter((row) => row % 2 === 1), all]) {
        await duel.compare(tolerance.float, (device) => run(device, spec, rows), `${rows.length} rows`);
      }
    });
  }

  duel.test("addLowRank", "a row has the same bits alone and among others, and the rest stays as it was", async () => {
    for (const shape of SHAPES) {
      const spec = specOf(shape);
      const cols = shape.firstCol + shape.cols + 3;
      const before = await readAll(duel.device, wideRowsOf(duel.device, 0, MOST, cols, 5));
      const whole = await readAll(duel.device, run(duel.device, spec, all));
      for (const rows of [[0], [7], [3, 4, 5, 6, 7], all.slice(17)]) {
        const some = await readAll(duel.device, run(duel.device, spec, rows));
        for (let r = 0; r < MOST; r++) {
          const expected = (rows.includes(r) ? whole : before).subarray(r * cols, (r + 1) * cols);
          assertSameBits(some.subarray(r * cols, (r + 1) * cols), expected, `row ${r} of ${rows.length}`);
        }
      }
      for (let r = 0; r < MOST; r++) {
        assert.deepEqual(
          whole.slice(r * cols, r * cols + shape.firstCol),
          before.slice(r * cols, r * cols + shape.firstCol),
        );
      }
    }
  });

  duel.test("addLowRank", "rows are counted from the base", async () => {
    const spec = specOf(SHAPES[1]!);
    const shifted = await readAll(duel.device, run(duel.device, spec, [10, 12], 9));
    assertSameBits(shifted, await readAll(duel.device, run(duel.device, spec, [1, 3])), "base 9");
  });
}
