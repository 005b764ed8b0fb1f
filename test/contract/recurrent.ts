// Recurrent layers: convolution, gates and linear attention against the plain recurrence; the same bits however a sequence is cut
// into steps and whatever rows are beside it; a sequence that begins forgets what its slot held; states can be copied.

import assert from "node:assert/strict";
import { Batch } from "../../src/core/batch.js";
import type { Device, StagedBatch, StatePool, Tensor } from "../../src/device/device.js";
import { mapOnce } from "../support/map.js";
import type { Tolerance } from "./device.js";
import { assertSameBits, type Duel, readAll } from "./duel.js";
import { numbers } from "./inputs.js";

/** One step: chunks of sequences, each with its slot in the state pool. */
type Chunk = { readonly slot: number; readonly start: number; readonly len: number; readonly numGuesses?: number };

function stageChunks(device: Device, chunks: readonly Chunk[]): StagedBatch {
  const total = chunks.reduce((sum, { len, numGuesses = 0 }) => sum + len + numGuesses, 0);
  const batch = new Batch(16, total, 0);
  const tokens = new Int32Array(1024);
  for (const { slot, start, len, numGuesses = 0 } of chunks) {
    batch.addRow(tokens, start, len + numGuesses, new Int32Array(0), Number.POSITIVE_INFINITY, slot, len);
  }
  const staged = device.createStagedBatch(total);
  device.stage(staged, batch, []);
  return staged;
}

/** Rows [from, from + n) of a seeded matrix. */
function noiseRows(seed: number, from: number, n: number, cols: number): Float32Array {
  return numbers(n * cols, seed, 2, from * cols);
}

/** An op on rows of inputs [T, inCols] that keeps `floats` numbers of state. */
interface Recurrence {
  readonly floats: number;
  readonly inCols: number;
  readonly outCols: number;
  run(device: Device, out: Tensor, x: Tensor, pool: StatePool, offset: number, batch: StagedBatch): void;
}

const LENGTH = 37;
const OFFSET = 5;

/**
 * The outputs of one sequence run in the given pieces, [LENGTH, outCols]; another sequence is in every step when `beside`, and so many tokens
 * behind each piece are guesses, the next ones of the sequence.
 */
async function runCut(
  device: Device,
  op: Recurrence,
  cuts: readonly number[],
  beside = false,
  numGuesses = 0,
): Promise<Float32Array> {
  const pool = device.allocStatePool({ numSlots: 3, floats: op.floats + OFFSET });
  const out = new Float32Array(LENGTH * op.outCols);
  let start = 0;
  let seen = 0; // outputs that were computed before
  for (const len of cuts) {
    const numGuessed = Math.min(numGuesses, LENGTH - start - len);
    const chunk: Chunk = { slot: 1, start, len, numGuesses: numGuessed };
    const chunks: Chunk[] = beside ? [{ ...chunk, slot: 2 }, chunk] : [chunk];
    const staged = stageChunks(device, chunks);
    const total = len + numGuessed;
    const rows = noiseRows(7, start, total, op.inCols);
    const both = beside ? Float32Array.of(...noiseRows(8, start, total, op.inCols), ...rows) : rows;
    const x = device.loadTensor(both, chunks.length * total, op.inCols);
    const y = device.allocTensor(chunks.length * total, op.outCols);
    op.run(device, y, x, pool, OFFSET, staged);
    const all = (await readAll(device, y)).subarray(-total * op.outCols);
    for (let i = 0; i < all.length; i++) {
      const at = start * op.outCols + i;
      if (at < seen)
        assert.equal(all[i], out[at], `token ${start + Math.floor(i / op.outCols)} was another one as a guess`);
    }
    out.set(all, start * op.outCols);
    seen = (start + total) * op.outCols;
    start += len;
  }
  return out;
}

const CUTS = [[LENGTH], new Array<number>(LENGTH).fill(1), [16, 16, 5], [1, 2, 3, 31], [36, 1]];

function convolution(cols: number, kernel: number, hasBias: boolean): Recurrence {
  return {
    floats: (kernel - 1) * cols,
    inCols: cols,
    outCols: cols,
    run(device, out, x, pool, offset, batch) {
      const weight = device.loadTensor(noiseRows(3, 0, kernel, cols), kernel, cols);
      const bias = hasBias ? device.loadTensor(noiseRows(4, 0, 1, cols), 1, cols) : null;
      device.shortConv(out, x, weight, bias, hasBias ? "silu" : "identity", pool, offset, batch);
    },
  };
}

interface Heads {
  readonly numHeads: number;
  readonly numKeyHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
}

/** Inputs of a row: q, k, v, time step, rate. Keys are kept short, as the models' norms do. */
function attention(heads: Heads, isDelta: boolean): Recurrence {
  const { numHeads, numKeyHeads, keyDim, valueDim } = heads;
  const keys = numKeyHeads * keyDim;
  const values = numHeads * valueDim;
  const inCols = 2 * keys + values + 2 * numHeads;
  return {
    floats: numHeads * keyDim * valueDim,
    inCols,
    outCols: values,
    run(device, out, x, pool, offset, batch) {
      const n = batch.numTokens;
      const short = device.loadTensor(new Float32Array(keyDim).fill(keyDim ** -0.5), 1, keyDim);
      const q = x.columns(0, keys);
      const k = x.columns(keys, 2 * keys);
      const v = x.columns(2 * keys, 2 * keys + values);
      const dt = x.columns(2 * keys + values, 2 * keys + values + numHeads);
      const rate = x.columns(2 * keys + values + numHeads, inCols);
      device.rmsNorm(q, q, short, 1e-6, n, keyDim);
      device.rmsNorm(k, k, short, 1e-6, n, keyDim);
      const decay = device.allocTensor(n, numHeads);
      const bias = device.loadTensor(noiseRows(5, 0, 1, numHeads), 1, numHeads);
      const slopes = device.loadTensor(new Float32Array(numHeads).fill(-0.7), 1, numHeads);
      device.decayGates(decay, dt, dt, bias, slopes, { min: 0.01, max: 1.5 }, n);
      mapOnce(device, { kind: "activation", activation: "sigmoid" }, rate, rate, null, n);
      const skip = isDelta ? null : device.loadTensor(noiseRows(6, 0, 1, numHeads), 1, numHeads);
      const spec = { ...heads, isDelta, skip };
      device.linearAttention(out, q, k, v, decay, isDelta ? rate : dt, spec, pool, offset, batch);
    },
  };
}

export function recurrentContract(duel: Duel, { elementwise }: Tolerance): void {
  const cases: [op: "shortConv" | "linearAttention", what: string, Recurrence][] = [
    ["shortConv", "4 taps, 37 columns, bias and silu", convolution(37, 4, true)],
    ["shortConv", "3 taps, 600 columns", convolution(600, 3, false)],
    ["shortConv", "one tap", convolution(8, 1, true)],
    ["shortConv", "2 taps, one column", convolution(1, 2, true)],
  ];
  const shapes: Heads[] = [
    { numHeads: 4, numKeyHeads: 2, keyDim: 16, valueDim: 16 },
    { numHeads: 3, numKeyHeads: 1, keyDim: 7, valueDim: 37 },
    { numHeads: 2, numKeyHeads: 2, keyDim: 130, valueDim: 65 },
    { numHeads: 1, numKeyHeads: 1, keyDim: 1, valueDim: 1 },
  ];
  for (const shape of shapes) {
    const what = `${shape.numHeads} heads of ${shape.keyDim} x ${shape.valueDim}`;
    cases.push(["linearAttention", `${what}, delta rule`, attention(shape, true)]);
    cases.push(["linearAttention", `${what}, state space`, attention(shape, false)]);
  }
  for (const [op, what, recurrence] of cases) {
    duel.test(op, what, async () => {
      const whole = await runCut(duel.device, recurrence, [LENGTH]);
      const expected = await runCut(duel.reference, recurrence, [LENGTH]);
      let largest = 1;
      for (const x of expected) largest = Math.max(largest, Math.abs(x));
      whole.forEach((x, i) => {
        assert.ok(Math.abs(x - expected[i]!) <= 4 * elementwise * largest, `${what} at ${i}: ${x}, not ${expected[i]}`);
      });
    });
    duel.test(op, `${what}: cut anywhere, beside others`, async () => {
      const whole = await runCut(duel.device, recurrence, [LENGTH]);
      for (const cuts of CUTS) {
        assertSameBits(await runCut(duel.device, recurrence, cuts), whole, `${what} cut ${cuts.join(" ")}`);
        assertSameBits(
          await runCut(duel.device, recurrence, cuts, true),
          whole,
          `${what} beside, cut ${cuts.join(" ")}`,
        );
      }
    });
  }

  for (const [op, what, recurrence] of cases) {
    duel.test(op, `${what}: the state stays in front of guesses`, async () => {
      const whole = await runCut(duel.device, recurrence, [LENGTH]);
      for (const [cuts, numGuesses] of [
        [new Array<number>(LENGTH).fill(1), 1],
        [new Array<number>(LENGTH).fill(1), 9],
        [[1, 2, 3, 31], 4],
      ] as const) {
        for (const beside of [false, true]) {
          const label = `${what} cut ${cuts.join(" ")}, ${numGuesses} guesses`;
          assertSameBits(await runCut(duel.device, recurrence, cuts, beside, numGuesses), whole, label);
        }
      }
    });
  }

  duel.test("copyStates", "a copied slot goes on like its source, and a beginning forgets", async () => {
    const op = attention(shapes[0]!, true);
    const { device } = duel;
    const pool = device.allocStatePool({ numSlots: 3, floats: op.floats + OFFSET });
    const step = async (slot: number, start: number, len: number): Promise<Float32Array> => {
      const x = device.loadTensor(noiseRows(7, start, len, op.inCols), len, op.inCols);
      const out = device.allocTensor(len, op.outCols);
      op.run(device, out, x, pool, OFFSET, stageChunks(device, [{ slot, start, len }]));
      return await readAll(device, out);
    };
    const first = await step(0, 0, 9);
    device.copyStates(pool, 0, 2);
    if (device.info.canReadPages) {
      const values = new Float32Array(pool.spec.floats);
      device.readStates(values, pool, 0);
      device.writeStates(pool, 1, values);
    } else device.copyStates(pool, 0, 1);
    if (device.swapOut !== undefined) {
      const { buffer } = device.allocHost(pool.spec.floats);
      const bytes = new Uint8Array(buffer, 0, 4 * pool.spec.floats);
      device.swapOut(bytes, pool, 1);
      device.copyStates(pool, 0, 1);
      device.swapIn!(pool, 1, bytes);
    }
    const source = await step(0, 9, 5);
    assertSameBits(await step(2, 9, 5), source, "the copy");
    assertSameBits(await step(1, 9, 5), source, "what was read and written, and saved and loaded where that can be");
    assertSameBits(await step(2, 0, 9), first, "a new sequence in a used slot");
  });
}
