// What adapters add to a product: against the reference, and the same bits for a row whichever rows come with it.

import { Batch } from "../../src/core/batch.js";
import type { Device, LowRankSpec, LowRanks, StagedBatch, Tensor, Weight } from "../../src/device/device.js";
import type { Tolerance } from "./device.js";
import { assertSameBits, type Duel, readAll } from "./duel.js";
import { numbers, randomWeight } from "./inputs.js";

const MOST = 40;

interface Shape {
  readonly rank: number;
  readonly cols: number;
  readonly firstCol: number;
  readonly isBf16?: boolean;
}

interface Product {
  readonly inputs: number;
  readonly cols: number;
  /** What each adapter has here: none, or at some of its columns. */
  readonly adapters: readonly (readonly Shape[])[];
}

const PRODUCTS: readonly Product[] = [
  { inputs: 3, cols: 9, adapters: [[{ rank: 1, cols: 5, firstCol: 0 }]] },
  { inputs: 64, cols: 43, adapters: [[{ rank: 3, cols: 33, firstCol: 7 }], []] },
  {
    inputs: 300,
    cols: 520,
    adapters: [
      [{ rank: 8, cols: 256, firstCol: 0, isBf16: true }],
      [
        { rank: 17, cols: 200, firstCol: 2 },
        { rank: 4, cols: 64, firstCol: 202 },
        { rank: 33, cols: 253, firstCol: 267 },
      ],
      [{ rank: 80, cols: 515, firstCol: 3, isBf16: true }],
    ],
  },
  { inputs: 1127, cols: 64, adapters: [[{ rank: 64, cols: 62, firstCol: 1 }], [{ rank: 16, cols: 64, firstCol: 0 }]] },
];

function specOf({ rank, cols, firstCol, isBf16 = false }: Shape, inputs: number, seed: number): LowRankSpec {
  const [a, b] = [numbers(rank * inputs, seed, 0.2), numbers(cols * rank, seed + 1, 0.5)];
  if (isBf16)
    for (const values of [a, b])
      new Uint16Array(values.buffer).forEach((_, i, halves) => {
        if (i % 2 === 0) halves[i] = 0;
      });
  return { rank, inputs, cols, firstCol, scale: 1.75, a, b };
}

/** Which adapter a row has; -1: none. */
type AdapterOf = (row: number) => number;

interface Call {
  /** Rows of x, in the order in which the batch has them. */
  readonly rows: readonly number[];
  readonly adapterOf: AdapterOf;
  /** The product is of n logit rows from here on: each row has one. Omitted: of tokens. */
  readonly firstLogit?: number;
  readonly n?: number;
  /** Of the product's own matrix. Omitted: f32. */
  readonly dtype?: "f32" | "bf16";
}

/** These rows of a seeded matrix, in the middle of a wider tensor. */
function pickedRows(device: Device, rows: readonly number[], cols: number, seed: number): Tensor {
  const stride = cols + 10;
  const values = new Float32Array(rows.length * stride);
  for (const [i, row] of rows.entries()) values.set(numbers(cols, seed, 2, row * cols), i * stride + 5);
  return device.loadTensor(values, rows.length, stride).columns(5, 5 + cols);
}

type Op<T> = (
  device: Device,
  out: Tensor,
  x: Tensor,
  weight: Weight,
  lowRanks: LowRanks,
  staged: StagedBatch,
  call: Call,
) => T;

/** Adds the product to out [n]. */
const multiply: Op<Tensor> = (device, out, x, weight, lowRanks, staged, { rows, firstLogit = -1, n = rows.length }) => {
  const options = { accumulate: true, scale: 0.5 };
  if (lowRanks.isIn(staged)) device.adaptedMatmul!(out, x, weight, lowRanks, staged, n, firstLogit, options);
  else device.matmul(out, x, weight, n, options);
  return out;
};

/** What the op makes of the rows that were called for. */
function run(device: Device, product: Product, call: Call): Tensor;
function run<T>(device: Device, product: Product, call: Call, op: Op<T>): T;
function run(device: Device, { inputs, cols, adapters }: Product, call: Call, op: Op<unknown> = multiply): unknown {
  const { rows, adapterOf, firstLogit = -1, n = rows.length, dtype = "f32" } = call;
  const batch = new Batch(4, rows.length);
  for (const row of rows) {
    batch.addRow(Int32Array.of(1), 0, 1, Int32Array.of(1), 0);
    batch.adapterSlots[batch.numRows - 1] = adapterOf(row);
  }
  const staged = device.createStagedBatch(rows.length);
  const most = Math.max(1, ...adapters.map((own) => own.length));
  const lowRanks = device.createLowRanks!(most);
  const loaded = adapters.flatMap((shapes, slot) =>
    shapes.map((shape, i) => {
      const lowRank = device.loadLowRank!(specOf(shape, inputs, 10 * slot + 2 * i));
      lowRanks.add(slot, lowRank);
      return lowRank;
    }),
  );
  device.stage(staged, batch, []);
  const own = firstLogit < 0 ? rows : rows.slice(firstLogit, firstLogit + n);
  const x = pickedRows(device, own, inputs, 6);
  const out = pickedRows(device, own, cols, 5);
  const weight = device.loadWeight([randomWeight(dtype, cols, inputs, 3)]);
  const result = op(device, out, x, weight, lowRanks, staged, call);
  for (let slot = 0; slot < adapters.length; slot++) lowRanks.drop(slot);
  for (const lowRank of loaded) device.freeLowRank!(lowRank);
  return result;
}

export function lowRankContract(duel: Duel, tolerance: Tolerance): void {
  const all = Array.from({ length: MOST }, (_, i) => i);
  const some: AdapterOf = (row) => [-1, 0, 1, 2][(row * 7) % 4]!;
  for (const product of PRODUCTS) {
    const { inputs, cols, adapters } = product;
    const adapterOf: AdapterOf = (row) => Math.min(some(row), adapters.length - 1);
    const what = `${inputs} inputs, ${cols} columns, ${adapters.length} adapters`;

    duel.test("adaptedMatmul", what, async () => {
      for (const rows of [[2], [0, 3, 39], all]) {
        const call = { rows, adapterOf };
        await duel.compare(tolerance.float, (device) => run(device, product, call), `${rows.length} rows`, 2);
      }
    });

    duel.test("adaptedMatmul", `${what}: a row has the same bits alone, among others, and in a head`, async () => {
      for (const dtype of ["f32", "bf16"] as const) {
        const runOf = async (rows: readonly number[]) =>
          readAll(duel.device, run(duel.device, product, { rows, adapterOf, dtype }));
        const whole = await runOf(all);
        const check = async (rows: readonly number[]): Promise<void> => {
          const found = await runOf(rows);
          for (const [i, row] of rows.entries()) {
            const [own, expected] = [i, row].map((at, j) => [found, whole][j]!.subarray(at * cols, (at + 1) * cols));
            assertSameBits(own!, expected!, `row ${row} of ${rows.length}, ${dtype}`);
          }
        };
        for (const rows of [[0], [1], [7, 9], [6, 5, 4, 3], all.slice(17).reverse()]) await check(rows);
        // More rows than an item has; of one adapter more than a large item has; more than a launch takes.
        await check(Array.from({ length: cols < 10 ? 1500 : 300 }, (_, i) => (i * 11) % MOST));
      }
    });
  }

  duel.test("adaptedMatmul", "adapters give the same bits before the gate and with a gate of its own", async () => {
    // 40 cols begin within a panel; 64 and 96 with one.
    for (const inner of [40, 64, 96]) {
      const adapters: readonly (readonly Shape[])[] = [
        [
          { rank: 3, cols: inner, firstCol: 0 },
          { rank: 17, cols: inner, firstCol: inner, isBf16: true },
        ],
        [{ rank: 8, cols: inner, firstCol: inner }],
      ];
      const product = { inputs: 100, cols: 2 * inner, adapters };
      for (const rows of [[3], [0, 1, 2, 5, 6], all]) {
        const call = { rows, adapterOf: (row: number) => (row % 3) - 1 };
        const apart = run(duel.device, product, call, (device, both, x, weight, lowRanks, staged) => {
          device.adaptedMatmul!(both, x, weight, lowRanks, staged, rows.length, -1);
          const out = device.allocTensor(rows.length, inner);
          const gate = device.createMap({ kind: "gate", activation: "silu" });
          device.map(out, gate, both.columns(0, inner), both.columns(inner, 2 * inner), rows.length);
          return out;
        });
        const once = run(duel.device, product, call, (device, _both, x, weight, lowRanks, staged) => {
          const out = device.allocTensor(rows.length, inner);
          const did = device.adaptedGatedMatmul?.(out, x, weight, "silu", lowRanks, staged);
          return did === true ? out : null;
        });
        if (once === null) continue; // the device makes two steps of it
        assertSameBits(
          await readAll(duel.device, once),
          await readAll(duel.device, apart!),
          `${inner}, ${rows.length}`,
        );
      }
    }
  });

  duel.test("adaptedMatmul", "rows of a head are counted from the first logit row", async () => {
    const product = PRODUCTS[2]!;
    const whole = await readAll(duel.device, run(duel.device, product, { rows: all, adapterOf: some }));
    for (const firstLogit of [0, 1, 13]) {
      const call = { rows: all, adapterOf: some, firstLogit, n: 7 };
      const found = await readAll(duel.device, run(duel.device, product, call));
      const expected = whole.subarray(firstLogit * product.cols, (firstLogit + 7) * product.cols);
      assertSameBits(found, expected, `from ${firstLogit} on`);
    }
  });
}
