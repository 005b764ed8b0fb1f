// Rows of numbers from the host to a tensor, in their place among what is queued: copied to page-locked memory first, so that the host goes on at once.
// It waits only where it is two blocks ahead of the device.

import { check } from "./driver/abi.js";
import type { CudaRuntime } from "./runtime.js";
import type { CudaTensor } from "./tensor.js";

const BLOCK_FLOATS = 2 ** 18;
const NUM_BLOCKS = 2;
const NO_TIMING = 2;

/** Rows of `cols` numbers, `stride` apart. */
type RowPlace = Pick<CudaTensor, "address" | "stride" | "cols">;

export class RowUploads {
  readonly #runtime: CudaRuntime;
  readonly #blocks: { address: number; floats: Float32Array; event: number; isUsed: boolean }[] = [];
  #turn = 0;

  constructor(runtime: CudaRuntime) {
    this.#runtime = runtime;
    const { context } = runtime;
    const out = new BigUint64Array(1);
    for (let i = 0; i < NUM_BLOCKS; i++) {
      const { address, buffer } = context.allocPinned(4 * BLOCK_FLOATS);
      check(context.driver, context.driver.eventCreate(out, NO_TIMING), "eventCreate");
      this.#blocks.push({
        address,
        floats: new Float32Array(buffer, 0, BLOCK_FLOATS),
        event: Number(out[0]),
        isUsed: false,
      });
    }
  }

  write({ address, stride, cols }: RowPlace, firstRow: number, values: Float32Array, n: number): void {
    const { driver, stream } = this.#runtime.context;
    this.#runtime.queue.flush();
    const most = Math.floor(BLOCK_FLOATS / cols);
    for (let done = 0; done < n; done += most) {
      const count = Math.min(most, n - done);
      const block = this.#blocks[this.#turn]!;
      this.#turn = (this.#turn + 1) % NUM_BLOCKS;
      if (block.isUsed) check(driver, driver.eventSynchronize(block.event), "eventSynchronize");
      block.floats.set(values.subarray(done * cols, (done + count) * cols));
      // What lies between the rows of a view is another's.
      const rowsEach = stride === cols ? count : 1;
      for (let r = 0; r < count; r += rowsEach) {
        const to = address + 4 * (firstRow + done + r) * stride;
        const bytes = 4 * rowsEach * cols;
        check(driver, driver.copyIn(to, block.address + 4 * r * cols, bytes, stream), "copyIn", to, bytes);
      }
      check(driver, driver.eventRecord(block.event, stream), "eventRecord");
      block.isUsed = true;
    }
  }
}
