// Norms, activations, sums, gathers: every number from its own row.

import assert from "node:assert/strict";
import type { Activation, MapSpec } from "../../src/device/device.js";
import { readTensor } from "../../src/device/read-tensor.js";
import { mapOnce } from "../support/map.js";
import type { Tolerance } from "./device.js";
import { type Duel, readAll } from "./duel.js";
import { numbers, randomWeight, rowsOf, stageTokens, wideRowsOf } from "./inputs.js";

const ROWS = [1, 2, 3, 5, 17, 65];
const COLS = [1, 7, 16, 48, 80, 129];
const MOST = 65;
const ACTIVATIONS: readonly Activation[] = ["silu", "gelu_tanh", "gelu", "relu", "relu2", "sigmoid", "identity"];
const EPS = 1e-5;

export function elementwiseContract(duel: Duel, { elementwise: tolerance, float }: Tolerance): void {
  duel.test("allocTensor", "a column view is the same memory", async () => {
    const d = duel.device;
    const x = d.loadTensor(numbers(3 * 10, 1), 3, 10);
    const view = x.columns(2, 6);
    assert.deepEqual([view.rows, view.cols, view.stride], [3, 4, x.stride]);
    mapOnce(d, { kind: "scale", factor: 2 }, view, view, null, 2); // rows beyond n stay
    const expected = numbers(3 * 10, 1).map((v, i) => (i < 20 && i % 10 >= 2 && i % 10 < 6 ? v * 2 : v));
    assert.deepEqual(await readAll(d, x), expected);
  });

  duel.test("read", "any run of rows of a view", async () => {
    const d = duel.device;
    const values = numbers(6 * 9, 2);
    const out = new Float32Array(2 * 3);
    await readTensor(d, out, d.loadTensor(values, 6, 9).columns(4, 7), 3, 2);
    assert.deepEqual([...out], [...values.slice(31, 34), ...values.slice(40, 43)]);
  });

  duel.test("write", "any run of rows of a view, and nothing beside it; what reads them later has them", async () => {
    const d = duel.device;
    const values = numbers(6 * 9, 2);
    const x = d.loadTensor(values, 6, 9);
    const given = numbers(2 * 3, 7);
    d.write(x.columns(4, 7), 3, given, 2);
    given.fill(0); // it was read before the call returned
    const expected = values.slice();
    for (let r = 0; r < 2; r++) expected.set(numbers(2 * 3, 7).subarray(3 * r, 3 * r + 3), (3 + r) * 9 + 4);
    assert.deepEqual(await readAll(d, x), expected);
    for (const cols of [64, 300]) {
      await duel.compare(float, (device) => {
        const all = rowsOf(device, 0, 1100, cols, 3);
        const weight = device.loadWeight([randomWeight("bf16", 20, cols, 1)]);
        const out = device.allocTensor(60, 20);
        device.matmul(out, all, weight, 60); // some devices keep what they made of its input
        device.write(all, 40, numbers(1000 * cols, 8), 1000); // more than one block of some devices
        device.matmul(out, all, weight, 60);
        return out;
      });
      await duel.compare(tolerance, (device) => {
        const all = rowsOf(device, 0, 1100, cols, 3);
        mapOnce(device, { kind: "scale", factor: 3 }, all, all, null, 1100);
        device.write(all, 40, numbers(1000 * cols, 8), 1000);
        mapOnce(device, { kind: "scale", factor: 2 }, all, all, null, 1100);
        return all;
      });
    }
  });

  duel.test("rmsNorm", "all columns, and in place", async () => {
    for (const n of ROWS) {
      for (const cols of COLS) {
        await duel.compare(tolerance, (d) => {
          const x = wideRowsOf(d, 0, n, cols, n);
          const weight = d.loadTensor(numbers(cols, 3), 1, cols);
          const out = d.allocTensor(n, cols);
          d.rmsNorm(out, x, weight, EPS, n);
          d.rmsNorm(out, out, weight, EPS, n);
          return out;
        });
      }
    }
  });

  duel.test("rmsNorm", "each head of a view, in place", async () => {
    for (const [heads, dim] of [
      [3, 16],
      [5, 48],
      [2, 80],
      [1, 128],
    ] as const) {
      await duel.compare(tolerance, (d) => {
        const x = wideRowsOf(d, 0, 9, heads * dim, dim, dim);
        d.rmsNorm(x, x, d.loadTensor(numbers(dim, 4), 1, dim), EPS, 9, dim);
        return x;
      });
    }
  });

  duel.test("rmsNorm", "groups of columns with weights of their own", async () => {
    for (const [groups, cols] of [
      [3, 16],
      [2, 33],
    ] as const) {
      await duel.compare(tolerance, (d) => {
        const x = wideRowsOf(d, 0, 9, groups * cols, cols);
        d.rmsNorm(x, x, d.loadTensor(numbers(groups * cols, 4), 1, groups * cols), EPS, 9, cols);
        return x;
      });
    }
  });

  duel.test("layerNorm", "each head, with one weight or weights of their own", async () => {
    for (const weightCols of [20, 60]) {
      await duel.compare(tolerance, (d) => {
        const x = wideRowsOf(d, 0, 9, 60, 3);
        const weight = d.loadTensor(numbers(weightCols, 4), 1, weightCols);
        const bias = d.loadTensor(numbers(weightCols, 5), 1, weightCols);
        d.layerNorm(x, x, weight, bias, EPS, 9, 20);
        return x;
      });
    }
  });

  duel.test("map", "scale_rows: a factor for each row", async () => {
    await duel.compare(tolerance, (d) => {
      const x = wideRowsOf(d, 0, 9, 37, 3);
      mapOnce(d, { kind: "scale_rows" }, x, x, wideRowsOf(d, 0, 9, 1, 8), 8); // the last row stays
      return x;
    });
  });

  duel.test("map", "scale_by_position: the logarithm of whole periods", async () => {
    for (const start of [0, 30, 4000]) {
      await duel.compare(tolerance, (d) => {
        const x = wideRowsOf(d, 0, 9, 37, 3);
        const batch = stageTokens(d, [3, 1, 5], 10, start);
        mapOnce(d, { kind: "scale_by_position", beta: 0.1, period: 32, shift: 1 }, x, x, null, 9, batch);
        return x;
      });
    }
  });

  duel.test("map", "xielu: both sides of zero", async () => {
    await duel.compare(tolerance, (d) => {
      const x = wideRowsOf(d, 0, 9, 37, 3);
      mapOnce(d, { kind: "xielu", alphaP: 0.8, alphaN: 1.3, beta: 0.5, eps: -1e-6 }, x, x, null, 8);
      return x;
    });
  });

  duel.test("rmsNorm", "a row of zeros stays zero", async () => {
    const d = duel.device;
    const out = d.allocTensor(1, 33);
    d.rmsNorm(out, d.loadTensor(new Float32Array(33), 1, 33), d.loadTensor(numbers(33, 5), 1, 33), EPS, 1);
    assert.ok((await readAll(d, out)).every((value) => value === 0));
  });

  duel.test("rmsNorm", "rows do not depend on their neighbours", async () => {
    const weight = duel.device.loadTensor(numbers(80, 6), 1, 80);
    await duel.compareRows(MOST, (from, n) => {
      const out = duel.device.allocTensor(n, 80);
      duel.device.rmsNorm(out, rowsOf(duel.device, from, n, 80, 7), weight, EPS, n);
      return out;
    });
  });

  duel.test("addRmsNorm", "changes the residual and gives its norm", async () => {
    for (const n of ROWS) {
      for (const cols of COLS) {
        for (const part of ["out", "residual"] as const) {
          await duel.compare(tolerance, (d) => {
            const residual = rowsOf(d, 0, n, cols, 8);
            const out = d.allocTensor(n, cols);
            d.addRmsNorm(out, residual, rowsOf(d, 0, n, cols, 9), d.loadTensor(numbers(cols, 10), 1, cols), EPS, n);
            return part === "out" ? out : residual;
          });
        }
      }
    }
  });

  duel.test("layerNorm", "odd sizes, in place", async () => {
    for (const n of ROWS) {
      for (const cols of COLS.filter((c) => c > 1)) {
        await duel.compare(tolerance, (d) => {
          const x = wideRowsOf(d, 0, n, cols, 11);
          const bias = d.loadTensor(numbers(cols, 12), 1, cols);
          d.layerNorm(x, x, d.loadTensor(numbers(cols, 13), 1, cols), bias, EPS, n);
          return x;
        });
      }
    }
  });

  duel.test("layerNorm", "rows do not depend on their neighbours", async () => {
    const weight = duel.device.loadTensor(numbers(48, 14), 1, 48);
    await duel.compareRows(MOST, (from, n) => {
      const out = duel.device.allocTensor(n, 48);
      duel.device.layerNorm(out, rowsOf(duel.device, from, n, 48, 15), weight, weight, EPS, n);
      return out;
    });
  });

  duel.test("map", "add: with a factor, and onto itself", async () => {
    for (const n of ROWS) {
      for (const cols of COLS) {
        await duel.compare(tolerance, (d) => {
          const a = wideRowsOf(d, 0, n, cols, 16);
          const b = rowsOf(d, 0, n, cols, 17);
          const out = d.allocTensor(n, cols);
          mapOnce(d, { kind: "add", scale: 0.75 }, out, a, b, n);
          mapOnce(d, { kind: "add", scale: -3 }, out, out, b, n);
          return out;
        });
      }
    }
  });

  duel.test("map", "scale: leaves the rows beyond n alone", async () => {
    await duel.compare(tolerance, (d) => {
      const x = wideRowsOf(d, 0, 7, 33, 18);
      mapOnce(d, { kind: "scale", factor: -0.37 }, x, x, null, 5);
      return x;
    });
  });

  duel.test("map", "clamp: between two bounds, below one, above one; a part of the columns, in place", async () => {
    await duel.compare(tolerance, (d) => {
      const x = wideRowsOf(d, 0, 9, 33, 19);
      const out = d.loadTensor(new Float32Array(9 * 33), 9, 33);
      mapOnce(d, { kind: "clamp", low: -0.25, high: 0.5 }, out, x, null, 9);
      mapOnce(d, { kind: "clamp", low: Number.NEGATIVE_INFINITY, high: 0.125 }, x, x, null, 8);
      mapOnce(
        d,
        { kind: "clamp", low: 0, high: Number.POSITIVE_INFINITY },
        x.columns(3, 30),
        x.columns(3, 30),
        null,
        9,
      );
      mapOnce(d, { kind: "add", scale: 1 }, out, out, x, 9);
      return out;
    });
  });

  duel.test("map", "what changes one tensor can also write another", async () => {
    const specs: readonly MapSpec[] = [
      { kind: "scale", factor: 0.3 },
      { kind: "softcap", cap: 2 },
      { kind: "scale_rows" },
      { kind: "xielu", alphaP: 0.8, alphaN: 1.3, beta: 0.5, eps: -1e-6 },
      { kind: "scale_by_position", beta: 0.1, period: 4, shift: 0 },
    ];
    for (const spec of specs) {
      await duel.compare(tolerance, (d) => {
        const out = wideRowsOf(d, 0, 9, 33, 20);
        const x = rowsOf(d, 0, 9, 33, 21);
        mapOnce(d, spec, out, x, wideRowsOf(d, 0, 9, 1, 8), 9, stageTokens(d, [3, 1, 5], 10, 6));
        mapOnce(d, { kind: "add", scale: 1 }, out, out, x, 9); // x is as it was
        return out;
      });
    }
  });

  duel.test("map", "softcap: small and large values", async () => {
    for (const cols of COLS) {
      await duel.compare(tolerance, (d) => {
        const x = rowsOf(d, 0, 9, cols, 19, 200);
        mapOnce(d, { kind: "softcap", cap: 15 }, x, x, null, 9);
        return x;
      });
    }
  });

  for (const activation of ACTIVATIONS) {
    duel.test("map", `${activation}, in place, far into both tails`, async () => {
      for (const range of [0.1, 5, 60]) {
        await duel.compare(tolerance, (d) => {
          const x = rowsOf(d, 0, 17, 129, 20, range);
          mapOnce(d, { kind: "activation", activation }, x, x, null, 17);
          return x;
        });
      }
    });

    duel.test("map", `${activation} as a gate, from two views of one tensor`, async () => {
      for (const n of ROWS) {
        await duel.compare(tolerance, (d) => {
          const both = rowsOf(d, 0, n, 2 * 49, 21, 8);
          const out = d.allocTensor(n, 49);
          mapOnce(d, { kind: "gate", activation }, out, both.columns(0, 49), both.columns(49, 98), n);
          return out;
        });
      }
    });
  }

  duel.test("map", "gate: rows do not depend on their neighbours", async () => {
    await duel.compareRows(MOST, (from, n) => {
      const both = rowsOf(duel.device, from, n, 2 * 49, 22, 8);
      const out = duel.device.allocTensor(n, 49);
      mapOnce(duel.device, { kind: "gate", activation: "silu" }, out, both.columns(0, 49), both.columns(49, 98), n);
      return out;
    });
  });

  duel.test("gatherLogitRows", "from any first row", async () => {
    for (const [first, n] of [
      [0, 4],
      [1, 2],
      [3, 1],
    ] as const) {
      await duel.compare(0, (d) => {
        const staged = stageTokens(d, [3, 1, 7, 2], 10);
        const out = d.allocTensor(n, 33);
        d.gatherLogitRows(out, wideRowsOf(d, 0, 13, 33, 23), staged, first, n);
        return out;
      });
    }
  });

  duel.test("copyHeads", "pieces of heads, and one piece for all heads", async () => {
    for (const inHead of [44, 0]) {
      const shape = { numHeads: 3, width: 20, outHead: 40, outOffset: 7, inHead, inOffset: 5 };
      await duel.compare(0, (d) => {
        const out = rowsOf(d, 0, 6, 3 * 40, 24); // what is not copied stays
        d.copyHeads(out, wideRowsOf(d, 0, 6, 3 * 44, 25), shape, 5);
        return out;
      });
    }
  });
}
