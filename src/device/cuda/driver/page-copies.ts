// Whole pages between the pools and page-locked host memory, on a stream of their own: while a flight computes, pages that it does not
// touch go out and come in. Two events keep the order that matters.
//
//   out   What is saved was complete when the last flight landed, so the copy waits for nothing in flight; only for writes that were
//         queued beside the flights (copies of states and pages, pages from disk).
//   in    The page may have had another owner in the flights under way: the copy waits for them.
//   join  A flight, or whoever else writes pages, waits for all copies queued before it.

import { check } from "./abi.js";
import type { CudaContext } from "./context.js";

const NO_TIMING = 2;
const NON_BLOCKING = 1;

export class PageCopies {
  readonly #context: CudaContext;
  readonly #stream: number;
  readonly #copied: number; // event behind the copies
  readonly #computed: number; // event behind what the flights' stream had to do
  /** Copies that the flights' stream has not been told to wait for. */
  #isAhead = false;
  /** Something was queued on the flights' stream since the copies last waited for it; and it wrote pages beside the flights. */
  #isBehind = false;
  #isBehindWrites = false;

  constructor(context: CudaContext) {
    this.#context = context;
    const { driver } = context;
    const out = new BigUint64Array(1);
    check(driver, driver.streamCreate(out, NON_BLOCKING), "streamCreate");
    this.#stream = Number(out[0]);
    const [copied, computed] = [0, 1].map(() => {
      check(driver, driver.eventCreate(out, NO_TIMING), "eventCreate");
      return Number(out[0]);
    });
    this.#copied = copied!;
    this.#computed = computed!;
  }

  /** Device memory to page-locked memory. */
  save(to: number, from: number, bytes: number): void {
    if (this.#isBehindWrites) this.#wait();
    const { driver } = this.#context;
    check(driver, driver.copyOut(to, from, bytes, this.#stream), "copyOut", to, from, bytes);
    this.#isAhead = true;
  }

  /** The opposite. */
  load(to: number, from: number, bytes: number): void {
    if (this.#isBehind) this.#wait();
    const { driver } = this.#context;
    check(driver, driver.copyIn(to, from, bytes, this.#stream), "copyIn", to, from, bytes);
    this.#isAhead = true;
  }

  /** Before anything that touches pages is queued on the flights' stream; `isWrite`: it writes them beside the flights. */
  join(isWrite: boolean): void {
    this.#isBehind = true;
    if (isWrite) this.#isBehindWrites = true;
    if (!this.#isAhead) return;
    const { driver, stream } = this.#context;
    check(driver, driver.eventRecord(this.#copied, this.#stream), "eventRecord");
    check(driver, driver.streamWait(stream, this.#copied, 0), "streamWait");
    this.#isAhead = false;
  }

  close(): void {
    const { driver } = this.#context;
    driver.streamSynchronize(this.#stream);
    driver.eventDestroy(this.#copied);
    driver.eventDestroy(this.#computed);
    driver.streamDestroy(this.#stream);
  }

  #wait(): void {
    const { driver, stream } = this.#context;
    check(driver, driver.eventRecord(this.#computed, stream), "eventRecord");
    check(driver, driver.streamWait(this.#stream, this.#computed, 0), "streamWait");
    this.#isBehind = this.#isBehindWrites = false;
  }
}
