// Two devices, the one under test and the reference, made to do the same thing.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Device, Tensor } from "../../src/device/device.js";
import { readTensor } from "../../src/device/read-tensor.js";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";

type ComputeTensor = (device: Device) => Tensor | Promise<Tensor>;

export type OpenDevice = () => Device | Promise<Device>;

/** What can be skipped: the ops of a step, and what is done at load. */
export type ContractOp = Exclude<keyof Device, "info" | "close" | "createStagedBatch" | "createRotary" | "stage">;

/** What the reference gave, by test and call: it is computed once for all runs of the contract in a process. */
const known = new Map<string, Float32Array>();

export class Duel {
  readonly reference: Device = new ReferenceDevice();
  readonly #make: OpenDevice;
  readonly #skip: ReadonlyMap<ContractOp, string>;
  #device: Device | null = null;
  #test = "";
  #numCompared = 0; // in this test

  constructor(make: OpenDevice, skip: ReadonlyMap<ContractOp, string>) {
    this.#make = make;
    this.#skip = skip;
  }

  get device(): Device {
    assert.ok(this.#device, "the device is not open");
    return this.#device;
  }

  async open(): Promise<void> {
    this.#device = await this.#make();
  }

  close(): void {
    this.#device?.close();
    this.reference.close();
  }

  /** A test of one op, skipped where the device says so. */
  test(op: ContractOp, what: string, body: () => Promise<void>): void {
    const reason = this.#skip.get(op);
    const name = `${op}: ${what}`;
    test(name, reason === undefined ? {} : { skip: reason }, async () => {
      this.#test = name;
      this.#numCompared = 0;
      await body();
    });
  }

  /** Runs the same calls on both devices and compares the tensor they give; `least` is the magnitude that errors are shares of. */
  async compare(tolerance: number, run: ComputeTensor, what = "", least = 1): Promise<void> {
    const found = await readAll(this.device, await run(this.device));
    assertClose(found, await this.#expected(run, found), tolerance, what, least);
  }

  /** Of the reference against itself only that it gives numbers can be seen here. */
  async #expected(run: ComputeTensor, found: Float32Array): Promise<Float32Array> {
    if (this.device instanceof ReferenceDevice) return found;
    const key = `${this.#test} ${this.#numCompared++}`;
    const expected = known.get(key) ?? (await readAll(this.reference, await run(this.reference)));
    known.set(key, expected);
    return expected;
  }

  /**
   * Runs `numRows` rows at once, then runs of them alone, and wants the same bits. `run` computes the rows [from, from + n) of its
   * own input into a tensor of n rows.
   */
  async compareRows(numRows: number, run: (from: number, n: number) => Tensor): Promise<void> {
    const whole = await readAll(this.device, run(0, numRows));
    const cols = whole.length / numRows;
    for (const [from, n] of rowRuns(numRows)) {
      const some = await readAll(this.device, run(from, n));
      assertSameBits(some, whole.subarray(from * cols, (from + n) * cols), `rows ${from}..${from + n} of ${numRows}`);
    }
  }
}

/** Runs of rows of every small size, at even and odd starts. */
function rowRuns(numRows: number): [number, number][] {
  const sizes = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64].filter((n) => n < numRows);
  return sizes.flatMap((n): [number, number][] => [
    [0, n],
    [Math.min(1, numRows - n), n],
    [numRows - n, n],
  ]);
}

export async function readAll(device: Device, x: Tensor): Promise<Float32Array> {
  const out = new Float32Array(x.rows * x.cols);
  await readTensor(device, out, x, 0, x.rows);
  return out;
}

function assertClose(
  found: Float32Array,
  expected: Float32Array,
  tolerance: number,
  what: string,
  least: number,
): void {
  assert.equal(found.length, expected.length);
  let largest = least;
  for (const value of expected) if (Number.isFinite(value)) largest = Math.max(largest, Math.abs(value));
  for (let i = 0; i < expected.length; i++) {
    const difference = Math.abs(found[i]! - expected[i]!);
    const isRight = found[i] === expected[i] || difference <= tolerance * largest; // NaN is never right
    if (!isRight)
      assert.fail(`${what} [${i}]: found ${found[i]}, expected ${expected[i]} within ${tolerance * largest}`);
  }
}

export function assertSameBits(found: Float32Array, expected: Float32Array, what: string): void {
  assert.equal(found.length, expected.length);
  const a = new Uint32Array(found.buffer, found.byteOffset, found.length);
  const b = new Uint32Array(expected.slice().buffer);
  for (let i = 0; i < a.length; i++) {
    if (a[i] !== b[i]) assert.fail(`${what} [${i}]: ${found[i]} and ${expected[i]} differ in their bits`);
  }
}
