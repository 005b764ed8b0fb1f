// Norms, activations, sums, gathers: every number from its own row.

import assert from "node:assert/strict";
import type { Activation } from "../../src/device/device.js";
import type { Tolerance } from "./device.js";
import { type Duel, readAll } from "./duel.js";
import { numbers, rowsOf, stageTokens, wideRowsOf } from "./inputs.js";

const ROWS = [1, 2, 3, 5, 17, 65];
const COLS = [1, 7, 16, 48, 80, 129];
const MOST = 65;
const ACTIVATIONS: readonly Activation[] = ["silu", "gelu_tanh", "gelu", "relu", "relu2", "sigmoid", "identity"];
const EPS = 1e-5;

export function elementwiseContract(duel: Duel, { elementwise: tolerance }: Tolerance): void {
  duel.test("allocTensor", "a column view is the same memory", () => {
    const d = duel.device;
    const x = d.loadTensor(numbers(3 * 10, 1), 3, 10);
    const view = x.columns(2, 6);
    assert.deepEqual([view.rows, view.cols, view.stride], [3, 4, x.stride]);
    d.scale(view, 2, 2); // rows beyond n stay
    const expected = numbers(3 * 10, 1).map((v, i) => (i < 20 && i % 10 >= 2 && i % 10 < 6 ? v * 2 : v));
    assert.deepEqual(readAll(d, x), expected);
  });

  duel.test("read", "any run of rows of a view", () => {
    const d = duel.device;
    const values = numbers(6 * 9, 2);
    const out = new Float32Array(2 * 3);
    d.read(out, d.loadTensor(values, 6, 9).columns(4, 7), 3, 2);
    assert.deepEqual([...out], [...values.slice(31, 34), ...values.slice(40, 43)]);
  });

  duel.test("rmsNorm", "all columns, and in place", () => {
    for (const n of ROWS) {
      for (const cols of COLS) {
        duel.compare(tolerance, (d) => {
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

  duel.test("rmsNorm", "each head of a view, in place", () => {
    for (const [heads, dim] of [
      [3, 16],
      [5, 48],
      [2, 80],
      [1, 128],
    ] as const) {
      duel.compare(tolerance, (d) => {
        const x = wideRowsOf(d, 0, 9, heads * dim, dim, dim);
        d.rmsNorm(x, x, d.loadTensor(numbers(dim, 4), 1, dim), EPS, 9, dim);
        return x;
      });
    }
  });

  duel.test("rmsNorm", "groups of columns with weights of their own", () => {
    for (const [groups, cols] of [
      [3, 16],
      [2, 33],
    ] as const) {
      duel.compare(tolerance, (d) => {
        const x = wideRowsOf(d, 0, 9, groups * cols, cols);
        d.rmsNorm(x, x, d.loadTensor(numbers(groups * cols, 4), 1, groups * cols), EPS, 9, cols);
        return x;
      });
    }
  });

  duel.test("layerNorm", "each head, with one weight or weights of their own", () => {
    for (const weightCols of [20, 60]) {
      duel.compare(tolerance, (d) => {
        const x = wideRowsOf(d, 0, 9, 60, 3);
        const weight = d.loadTensor(numbers(weightCols, 4), 1, weightCols);
        const bias = d.loadTensor(numbers(weightCols, 5), 1, weightCols);
        d.layerNorm(x, x, weight, bias, EPS, 9, 20);
        return x;
      });
    }
  });

  duel.test("scaleRows", "a factor for each row", () => {
    duel.compare(tolerance, (d) => {
      const x = wideRowsOf(d, 0, 9, 37, 3);
      d.scaleRows(x, wideRowsOf(d, 0, 9, 1, 8), 8); // the last row stays
      return x;
    });
  });

  duel.test("scaleByPosition", "the logarithm of whole periods", () => {
    for (const start of [0, 30, 4000]) {
      duel.compare(tolerance, (d) => {
        const x = wideRowsOf(d, 0, 9, 37, 3);
        d.scaleByPosition(x, { beta: 0.1, period: 32, shift: 1 }, stageTokens(d, [3, 1, 5], 10, start));
        return x;
      });
    }
  });

  duel.test("xielu", "both sides of zero", () => {
    duel.compare(tolerance, (d) => {
      const x = wideRowsOf(d, 0, 9, 37, 3);
      d.xielu(x, { alphaP: 0.8, alphaN: 1.3, beta: 0.5, eps: -1e-6 }, 8);
      return x;
    });
  });

  duel.test("rmsNorm", "a row of zeros stays zero", () => {
    const d = duel.device;
    const out = d.allocTensor(1, 33);
    d.rmsNorm(out, d.loadTensor(new Float32Array(33), 1, 33), d.loadTensor(numbers(33, 5), 1, 33), EPS, 1);
    assert.ok(readAll(d, out).every((value) => value === 0));
  });

  duel.test("rmsNorm", "rows do not depend on their neighbours", () => {
    const weight = duel.device.loadTensor(numbers(80, 6), 1, 80);
    duel.compareRows(MOST, (from, n) => {
      const out = duel.device.allocTensor(n, 80);
      duel.device.rmsNorm(out, rowsOf(duel.device, from, n, 80, 7), weight, EPS, n);
      return out;
    });
  });

  duel.test("addRmsNorm", "changes the residual and gives its norm", () => {
    for (const n of ROWS) {
      for (const cols of COLS) {
        for (const part of ["out", "residual"] as const) {
          duel.compare(tolerance, (d) => {
            const residual = rowsOf(d, 0, n, cols, 8);
            const out = d.allocTensor(n, cols);
            d.addRmsNorm(out, residual, rowsOf(d, 0, n, cols, 9), d.loadTensor(numbers(cols, 10), 1, cols), EPS, n);
            return part === "out" ? out : residual;
          });
        }
      }
    }
  });

  duel.test("layerNorm", "odd sizes, in place", () => {
    for (const n of ROWS) {
      for (const cols of COLS.filter((c) => c > 1)) {
        duel.compare(tolerance, (d) => {
          const x = wideRowsOf(d, 0, n, cols, 11);
          const bias = d.loadTensor(numbers(cols, 12), 1, cols);
          d.layerNorm(x, x, d.loadTensor(numbers(cols, 13), 1, cols), bias, EPS, n);
          return x;
        });
      }
    }
  });

  duel.test("layerNorm", "rows do not depend on their neighbours", () => {
    const weight = duel.device.loadTensor(numbers(48, 14), 1, 48);
    duel.compareRows(MOST, (from, n) => {
      const out = duel.device.allocTensor(n, 48);
      duel.device.layerNorm(out, rowsOf(duel.device, from, n, 48, 15), weight, weight, EPS, n);
      return out;
    });
  });

  duel.test("add", "with a factor, and onto itself", () => {
    for (const n of ROWS) {
      for (const cols of COLS) {
        duel.compare(tolerance, (d) => {
          const a = wideRowsOf(d, 0, n, cols, 16);
          const b = rowsOf(d, 0, n, cols, 17);
          const out = d.allocTensor(n, cols);
          d.add(out, a, b, 0.75, n);
          d.add(out, out, b, -3, n);
          return out;
        });
      }
    }
  });

  duel.test("scale", "leaves the rows beyond n alone", () => {
    duel.compare(tolerance, (d) => {
      const x = wideRowsOf(d, 0, 7, 33, 18);
      d.scale(x, -0.37, 5);
      return x;
    });
  });

  duel.test("softcap", "small and large values", () => {
    for (const cols of COLS) {
      duel.compare(tolerance, (d) => {
        const x = rowsOf(d, 0, 9, cols, 19, 200);
        d.softcap(x, 15, 9);
        return x;
      });
    }
  });

  for (const activation of ACTIVATIONS) {
    duel.test("activation", `${activation}, in place, far into both tails`, () => {
      for (const range of [0.1, 5, 60]) {
        duel.compare(tolerance, (d) => {
          const x = rowsOf(d, 0, 17, 129, 20, range);
          d.activation(x, x, activation, 17);
          return x;
        });
      }
    });

    duel.test("gatedActivation", `${activation}, from two views of one tensor`, () => {
      for (const n of ROWS) {
        duel.compare(tolerance, (d) => {
          const both = rowsOf(d, 0, n, 2 * 49, 21, 8);
          const out = d.allocTensor(n, 49);
          d.gatedActivation(out, both.columns(0, 49), both.columns(49, 98), activation, n);
          return out;
        });
      }
    });
  }

  duel.test("gatedActivation", "rows do not depend on their neighbours", () => {
    duel.compareRows(MOST, (from, n) => {
      const both = rowsOf(duel.device, from, n, 2 * 49, 22, 8);
      const out = duel.device.allocTensor(n, 49);
      duel.device.gatedActivation(out, both.columns(0, 49), both.columns(49, 98), "silu", n);
      return out;
    });
  });

  duel.test("gatherLogitRows", "from any first row", () => {
    for (const [first, n] of [
      [0, 4],
      [1, 2],
      [3, 1],
    ] as const) {
      duel.compare(0, (d) => {
        const staged = stageTokens(d, [3, 1, 7, 2], 10);
        const out = d.allocTensor(n, 33);
        d.gatherLogitRows(out, wideRowsOf(d, 0, 13, 33, 23), staged, first, n);
        return out;
      });
    }
  });

  duel.test("copyHeads", "pieces of heads, and one piece for all heads", () => {
    for (const inHead of [44, 0]) {
      const shape = { numHeads: 3, width: 20, outHead: 40, outOffset: 7, inHead, inOffset: 5 };
      duel.compare(0, (d) => {
        const out = rowsOf(d, 0, 6, 3 * 40, 24); // what is not copied stays
        d.copyHeads(out, wideRowsOf(d, 0, 6, 3 * 44, 25), shape, 5);
        return out;
      });
    }
  });
}
