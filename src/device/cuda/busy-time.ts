// How long flights took on the GPU's clock: an event before each flight's first copy, which comes when the flight ahead is done, and one
// behind its last.

import type { TokenBuffer } from "../device.js";
import { check } from "./abi.js";
import type { CudaContext } from "./context.js";

/** More than the flights that can be in the air. */
const NUM_PAIRS = 4;

export class BusyTime {
  ms = 0;
  readonly #context: CudaContext;
  readonly #pairs: { begin: number; end: number }[];
  readonly #out = new Float32Array(1);
  readonly #pairOf = new Map<TokenBuffer, number>(); // of flights that have not landed
  #current = 0;

  constructor(context: CudaContext) {
    this.#context = context;
    const { driver } = context;
    const out = new BigUint64Array(1);
    const create = (): number => {
      check(driver, driver.eventCreate(out, 0), "eventCreate");
      return Number(out[0]);
    };
    this.#pairs = Array.from({ length: NUM_PAIRS }, () => ({ begin: create(), end: create() }));
  }

  begin(): void {
    const { driver, stream } = this.#context;
    this.#current = (this.#current + 1) % NUM_PAIRS;
    check(driver, driver.eventRecord(this.#pairs[this.#current]!.begin, stream), "eventRecord");
  }

  end(flight: TokenBuffer): void {
    const { driver, stream } = this.#context;
    check(driver, driver.eventRecord(this.#pairs[this.#current]!.end, stream), "eventRecord");
    this.#pairOf.set(flight, this.#current);
  }

  /** Counts a flight that has landed. */
  add(flight: TokenBuffer): void {
    const index = this.#pairOf.get(flight);
    if (index === undefined) return;
    this.#pairOf.delete(flight);
    const { driver } = this.#context;
    const { begin, end } = this.#pairs[index]!;
    // The flight's own event came just before this one.
    check(driver, driver.eventSynchronize(end), "eventSynchronize");
    check(driver, driver.eventElapsed(this.#out, begin, end), "eventElapsed");
    this.ms += this.#out[0]!;
  }
}
