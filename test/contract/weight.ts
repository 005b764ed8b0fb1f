// Weights: every encoding, stacked, transposed, quantised at load; embedding and matmul with them.

import assert from "node:assert/strict";
import type { Device, MatmulOptions, Weight, WeightQuantization } from "../../src/device/device.js";
import { mapOnce } from "../support/map.js";
import type { Tolerance } from "./device.js";
import type { Duel } from "./duel.js";
import { BLOCK_DTYPES, FLOAT_DTYPES, numbers, randomWeight, rowsOf, stageTokens, wideRowsOf } from "./inputs.js";

const MOST = 65;

export function weightContract(duel: Duel, tolerance: Tolerance): void {
  duel.test("loadWeight", "tells the shape of what was stacked", async () => {
    const parts = [randomWeight("f32", 5, 12, 1), randomWeight("bf16", 3, 12, 2)];
    const weight = duel.device.loadWeight(parts);
    assert.deepEqual([weight.rows, weight.cols], [8, 12]);
  });

  duel.test("matmul", "f32, odd sizes", async () => {
    for (const [rows, cols] of [
      [1, 1],
      [3, 7],
      [16, 16],
      [33, 65],
      [129, 48],
      [50, 200],
    ] as const) {
      for (const n of [1, 2, 3, 4, 5, 8, 16, 17, 33, 65]) {
        await duel.compare(
          tolerance.float,
          (d) => multiply(d, load(d, "f32", rows, cols), n),
          `[${rows}, ${cols}] x ${n}`,
        );
      }
    }
  });

  for (const dtype of [...FLOAT_DTYPES, ...BLOCK_DTYPES]) {
    const isFloat = FLOAT_DTYPES.includes(dtype);
    duel.test("matmul", `${dtype} weights`, async () => {
      for (const rows of [1, 17, 64]) {
        for (const n of [1, 5, 33]) {
          const cols = isFloat ? 1101 : 512; // more than one chain of sums, where a device cuts them
          await duel.compare(
            isFloat ? tolerance.float : tolerance.integer,
            (d) => multiply(d, load(d, dtype, rows, cols), n),
            `${rows} rows x ${n}`,
            Math.sqrt(cols) / 2, // a single output may be near zero, its terms are not
          );
        }
      }
    });

    duel.test("matmul", `${dtype} weights: rows do not depend on their neighbours`, async () => {
      const cols = isFloat ? 1101 : 1280;
      const weight = load(duel.device, dtype, 37, cols);
      await duel.compareRows(MOST, (from, n) => {
        const out = duel.device.allocTensor(n, 37);
        duel.device.matmul(out, rowsOf(duel.device, from, n, cols, 7), weight, n);
        return out;
      });
    });

    duel.test("embed", `${dtype} table`, async () => {
      await duel.compare(tolerance.float, (d) => {
        const staged = stageTokens(d, [3, 1, 9], 50);
        const out = d.allocTensor(13, isFloat ? 77 : 256);
        d.embed(out, load(d, dtype, 50, isFloat ? 77 : 256), staged, 1.5);
        return out;
      });
    });
  }

  for (const quantize of ["q8", "q4"] satisfies WeightQuantization[]) {
    for (const dtype of ["f32", "bf16", "f8_e4m3_64"] as const) {
      duel.test("matmul", `${dtype} weights quantised to ${quantize} at load`, async () => {
        for (const n of [1, 9]) {
          await duel.compare(tolerance.integer, (d) => {
            const weight = d.loadWeight([randomWeight(dtype, 35, 128, 3), randomWeight(dtype, 4, 128, 4)], {
              quantize,
            });
            return multiply(d, weight, n);
          });
        }
      });
    }

    duel.test("matmul", `columns that are not whole blocks stay unquantised (${quantize})`, async () => {
      await duel.compare(tolerance.float, (d) =>
        multiply(d, d.loadWeight([randomWeight("f32", 9, 40, 5)], { quantize }), 3),
      );
    });
  }

  duel.test("matmul", "parts of several encodings, stacked", async () => {
    await duel.compare(tolerance.integer, (d) => {
      const parts = [randomWeight("f32", 7, 64, 1), randomWeight("q8_0", 5, 64, 2), randomWeight("bf16", 9, 64, 3)];
      return multiply(d, d.loadWeight(parts), 5);
    });
  });

  for (const dtype of ["f32", "f16", "bf16"] as const) {
    duel.test("matmul", `transposed parts, stacked (${dtype})`, async () => {
      await duel.compare(tolerance.float, (d) => {
        const parts = [randomWeight(dtype, 40, 9, 1), randomWeight(dtype, 40, 14, 2)];
        return multiply(d, d.loadWeight(parts, { transposed: true }), 6);
      });
    });
  }

  duel.test("matmul", "bias, scale and accumulation, through views", async () => {
    const cases: readonly MatmulOptions[] = [
      { scale: 0.5 },
      { accumulate: true },
      { accumulate: true, scale: -2 },
      { bias: null },
    ];
    for (const options of cases) {
      for (const hasBias of [false, true]) {
        for (const n of [1, 6]) {
          await duel.compare(tolerance.float, (d) => {
            const out = wideRowsOf(d, 0, n, 21, 8);
            const bias = hasBias ? d.loadTensor(numbers(21, 9), 1, 21) : null;
            d.matmul(out, wideRowsOf(d, 0, n, 50, 10), load(d, "f32", 21, 50), n, { ...options, bias });
            return out;
          });
        }
      }
    }
  });

  for (const dtype of ["bf16", "f16", "f32", "q4_0", "f8_e4m3_64"] as const) {
    duel.test("gatedMatmul", `${dtype}: what the product and the gate give, one after the other`, async () => {
      for (const n of [1, 9, 20, 40, 70, 300]) {
        await duel.compare(BLOCK_DTYPES.includes(dtype) ? tolerance.integer : tolerance.float, (d) => {
          const weight = load(d, dtype, 256, 128);
          const x = rowsOf(d, 0, n, 128, 14, 0.5);
          const out = d.allocTensor(n, 128);
          if (d.gatedMatmul?.(out, x, weight, "silu", n) === true) return out;
          const both = d.allocTensor(n, 256);
          d.matmul(both, x, weight, n);
          mapOnce(d, { kind: "gate", activation: "silu" }, out, both.columns(0, 128), both.columns(128, 256), n);
          return out;
        });
      }
    });
  }

  duel.test("gatedMatmul", "rows do not depend on their neighbours, nor on being gated in one pass", async () => {
    const d = duel.device;
    const weight = load(d, "bf16", 256, 640);
    await duel.compareRows(MOST, (from, n) => {
      const x = rowsOf(d, from, n, 640, 15, 0.5);
      const out = d.allocTensor(n, 128);
      if (n % 2 === 0 && d.gatedMatmul?.(out, x, weight, "silu", n) === true) return out;
      const both = d.allocTensor(n, 256);
      d.matmul(both, x, weight, n);
      mapOnce(d, { kind: "gate", activation: "silu" }, out, both.columns(0, 128), both.columns(128, 256), n);
      return out;
    });
  });

  duel.test("matmul", "leaves the rows beyond n alone", async () => {
    await duel.compare(tolerance.float, (d) => {
      const out = rowsOf(d, 0, 9, 21, 11);
      d.matmul(out, rowsOf(d, 0, 9, 50, 12), load(d, "f32", 21, 50), 4);
      return out;
    });
  });

  duel.test("addTypes", "adds the row of the text that each token belongs to", async () => {
    await duel.compare(tolerance.float, (d) => {
      const staged = stageTokens(d, [6, 5], 10, 8, 11);
      const out = rowsOf(d, 0, 11, 48, 14);
      d.addTypes(out, load(d, "f32", 2, 48), staged);
      return out;
    });
  });

  duel.test("addPositions", "adds the row of each token's position", async () => {
    await duel.compare(tolerance.float, (d) => {
      const staged = stageTokens(d, [2, 5], 10, 8);
      const out = rowsOf(d, 0, 7, 48, 13);
      d.addPositions(out, load(d, "f32", 20, 48), staged);
      return out;
    });
  });
}

function load(device: Device, dtype: Parameters<typeof randomWeight>[0], rows: number, cols: number): Weight {
  return device.loadWeight([randomWeight(dtype, rows, cols, 100)]);
}

function multiply(device: Device, weight: Weight, n: number) {
  const out = device.allocTensor(n, weight.rows);
  device.matmul(out, rowsOf(device, 0, n, weight.cols, 6), weight, n);
  return out;
}
