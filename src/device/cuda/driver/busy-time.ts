// How long flights took on the GPU's clock: from the end of the flight ahead to its own; from an event of its own where the GPU had come
// to that end before the flight's launches were handed over, so that what it waited for the host does not count. While flights follow one
// another nothing is recorded that would not be recorded anyway.

import type { TokenBuffer } from "../../device.js";
import { check } from "./abi.js";
import type { CudaContext } from "./context.js";

/** More than twice the flights that can be in flight: an end is read when the flight behind it has landed too. */
const NUM_EVENTS = 8;

const NOT_READY = 600; // CUDA_ERROR_NOT_READY

export class BusyTime {
  ms = 0;
  readonly #context: CudaContext;
  readonly #events: readonly number[];
  readonly #out = new Float32Array(1);
  readonly #inFlight = new Map<TokenBuffer, { begin: number; end: number }>();
  #turn = 0;
  #begin = 0;
  #lastEnd = 0;

  constructor(context: CudaContext) {
    this.#context = context;
    const { driver } = context;
    const out = new BigUint64Array(1);
    this.#events = Array.from({ length: NUM_EVENTS }, () => {
      check(driver, driver.eventCreate(out, 0), "eventCreate");
      return Number(out[0]);
    });
  }

  #next(): number {
    this.#turn = (this.#turn + 1) % NUM_EVENTS;
    return this.#events[this.#turn]!;
  }

  /** As a flight's launches are about to be handed to the driver. */
  begin(): void {
    const { driver, stream } = this.#context;
    this.#begin = this.#lastEnd;
    if (this.#inFlight.size > 0 && driver.eventQuery(this.#lastEnd) === NOT_READY) return;
    this.#begin = this.#next();
    check(driver, driver.eventRecord(this.#begin, stream), "eventRecord");
  }

  /** The event to record behind the flight's last copy. */
  end(flight: TokenBuffer): number {
    this.#lastEnd = this.#next();
    if (this.#begin !== 0) this.#inFlight.set(flight, { begin: this.#begin, end: this.#lastEnd });
    this.#begin = 0; // what launches nothing is not counted
    return this.#lastEnd;
  }

  /** Counts a flight that has landed. */
  add(flight: TokenBuffer): void {
    const events = this.#inFlight.get(flight);
    if (events === undefined) return;
    this.#inFlight.delete(flight);
    const { driver } = this.#context;
    check(driver, driver.eventElapsed(this.#out, events.begin, events.end), "eventElapsed");
    this.ms += this.#out[0]!;
  }
}
