// Sampling on the device (native/cuda/sample.cu): the rules of the rows go in by one copy, their tokens stay for the next flight's
// embedding and come back by another copy when the flight ends.

import type { SampleInputs, TokenBuffer } from "../device.js";
import { check } from "./abi.js";
import type { CudaRuntime } from "./runtime.js";
import type { CudaTensor } from "./tensor.js";

const THREADS = 1024;
const RULE_BYTES = 24; // uniform (f64), temperature, topK, topP, minP

export class CudaTokenBuffer implements TokenBuffer {
  readonly ids: Int32Array; // [maxRows] page-locked
  readonly maxRows: number;
  /** Device [maxRows]. */
  readonly address: number;
  readonly #runtime: CudaRuntime;
  readonly #hostAddress: number;
  readonly #event: number;
  readonly #rules: number; // device [maxRows]
  readonly #hostRules: number;
  readonly #doubles: Float64Array;
  readonly #floats: Float32Array;
  readonly #ints: Int32Array;
  /** Rows sampled since the flight before ended. */
  #count = 0;

  constructor(runtime: CudaRuntime, maxRows: number) {
    const { context } = runtime;
    this.#runtime = runtime;
    this.maxRows = maxRows;
    this.address = context.alloc(4 * maxRows, "a flight's tokens");
    const host = context.allocPinned(4 * maxRows);
    this.#hostAddress = host.address;
    this.ids = new Int32Array(host.buffer, 0, maxRows);
    this.#rules = context.alloc(RULE_BYTES * maxRows, "a flight's sampling rules");
    const rules = context.allocPinned(RULE_BYTES * maxRows);
    this.#hostRules = rules.address;
    this.#doubles = new Float64Array(rules.buffer, 0, maxRows * 3);
    this.#floats = new Float32Array(rules.buffer, 0, maxRows * 6);
    this.#ints = new Int32Array(rules.buffer, 0, maxRows * 6);
    const out = new BigUint64Array(1);
    check(context.driver, context.driver.eventCreate(out, 2), "eventCreate");
    this.#event = Number(out[0]);
  }

  /** Chooses tokens [first, first + n). */
  sample(first: number, logits: CudaTensor, n: number, inputs: SampleInputs): void {
    if (n === 0) return;
    const { temperature, topK, topP, minP, uniform } = inputs;
    const room = Math.min(temperature.length, topK.length, topP.length, minP.length, uniform.length);
    if (n > room || first + n > this.maxRows) {
      throw new RangeError(`sampling of ${n} rows from ${first} on, inputs for ${room}, room for ${this.maxRows}`);
    }
    for (let r = 0; r < n; r++) {
      const at = (first + r) * 6;
      this.#doubles[at / 2] = uniform[r]!;
      this.#floats[at + 2] = temperature[r]!;
      this.#ints[at + 3] = topK[r]!;
      this.#floats[at + 4] = topP[r]!;
      this.#floats[at + 5] = minP[r]!;
    }
    const { context, queue, modules } = this.#runtime;
    const from = RULE_BYTES * first;
    // Ahead of what is queued: nothing queued reads these rules.
    const status = context.driver.copyIn(this.#rules + from, this.#hostRules + from, RULE_BYTES * n, context.stream);
    check(context.driver, status, "copyIn", this.#rules + from, RULE_BYTES * n);
    queue
      .begin(modules.functionOf("sample", "sample_rows"), n, 1, 1, THREADS, 0)
      .long(this.address + 4 * first)
      .long(logits.address)
      .long(this.#rules + from)
      .long(logits.stride)
      .int(logits.cols)
      .int(0)
      .end();
    this.#count = Math.max(this.#count, first + n);
  }

  /** Everything queued goes to the driver, then the copy of the tokens. */
  endFlight(): void {
    const { context, queue } = this.#runtime;
    const { driver, stream } = context;
    queue.flush();
    if (this.#count > 0) {
      const status = driver.copyOut(this.#hostAddress, this.address, 4 * this.#count, stream);
      check(driver, status, "copyOut", this.address, 4 * this.#count);
    }
    this.#count = 0;
    check(driver, driver.eventRecord(this.#event, stream), "eventRecord");
  }

  wait(): void {
    const { driver } = this.#runtime.context;
    check(driver, driver.eventSynchronize(this.#event), "eventSynchronize");
  }
}
