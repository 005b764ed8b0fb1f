// The reference device as if the host could not wait for it, like a GPU in a browser: tokens and rows appear on the host when landed() or
// readAsync() resolves, some turns of the event loop later; whatever would have to block throws.

import { setImmediate } from "node:timers/promises";
import type { AttentionPlan } from "../../src/core/attention-plan.js";
import type { Batch } from "../../src/core/batch.js";
import { type Draws, MAX_TOP_LOGPROBS } from "../../src/core/draws.js";
import type { StagedBatch, Tensor, TokenBuffer } from "../../src/device/device.js";
import { ReferenceDevice } from "../../src/device/reference/reference-device.js";
import { HostTokenBuffer } from "../../src/device/token-buffer.js";

/** What the host would read if it read too early. */
const NOT_THERE = -1_000_000;

class HiddenTokens extends HostTokenBuffer {
  readonly onDevice: HostTokenBuffer;

  constructor(maxRows: number) {
    super(maxRows);
    this.onDevice = new HostTokenBuffer(maxRows);
  }

  /** The device continues from what the host wrote; the host sees nothing until show(). */
  hide(first: number, end: number): void {
    copy(this, this.onDevice, first, end);
    this.ids.fill(NOT_THERE, first, end);
    this.logprobs.fill(Number.NaN, first, end);
  }

  show(first: number, end: number): void {
    copy(this.onDevice, this, first, end);
  }
}

function copy(from: TokenBuffer, to: TokenBuffer, first: number, end: number): void {
  const [firstTop, endTop] = [first * MAX_TOP_LOGPROBS, end * MAX_TOP_LOGPROBS];
  to.ids.set(from.ids.subarray(first, end), first);
  to.logprobs.set(from.logprobs.subarray(first, end), first);
  to.topIds.set(from.topIds.subarray(firstTop, endTop), firstTop);
  to.topLogprobs.set(from.topLogprobs.subarray(firstTop, endTop), firstTop);
}

interface EndedFlight {
  readonly tokens: TokenBuffer;
  readonly results: readonly (() => void)[];
  readonly isFaulty: boolean;
}

export class UnblockingDevice extends ReferenceDevice {
  override readonly info = {
    ...new ReferenceDevice().info,
    name: "unblocking",
    asyncDepth: 2 as const,
    hasOwnMemory: true,
    canReadPages: false,
  };
  /** Times that landed() was called, and that it resolved. */
  numAwaited = 0;
  numLanded = 0;
  #isFaulty = false;
  /** Of the flight that has begun: what reveals its results. */
  #results: (() => void)[] = [];
  /** Oldest first. */
  #ended: EndedFlight[] = [];
  readonly #failed = new Set<TokenBuffer>();

  override createTokenBuffer(maxRows: number): HiddenTokens {
    return new HiddenTokens(maxRows);
  }

  override stage(
    staged: StagedBatch,
    batch: Batch,
    plans: readonly AttentionPlan[],
    previous: TokenBuffer | null = null,
  ): void {
    super.stage(staged, batch, plans, previous === null ? null : (previous as HiddenTokens).onDevice);
  }

  override sample(out: TokenBuffer, first: number, logits: Tensor, n: number, draws: Draws): void {
    const tokens = out as HiddenTokens;
    const end = first + draws.count;
    tokens.hide(first, end);
    super.sample(tokens.onDevice, first, logits, n, draws);
    this.#results.push(() => tokens.show(first, end));
  }

  override readLater(out: Float32Array, x: Tensor, firstRow: number, n: number): void {
    const values = new Float32Array(n * x.cols);
    super.read(values, x, firstRow, n);
    out.fill(Number.NaN, 0, values.length);
    this.#results.push(() => out.set(values));
  }

  async readAsync(out: Float32Array, x: Tensor, firstRow: number, n: number): Promise<void> {
    const values = new Float32Array(n * x.cols);
    super.read(values, x, firstRow, n);
    await setImmediate();
    out.set(values);
  }

  /** The next flight that ends turns out to have failed. */
  injectFault(): void {
    this.#isFaulty = true;
  }

  override submit(tokens: TokenBuffer): void {
    this.#ended.push({ tokens, results: this.#results, isFaulty: this.#isFaulty });
    this.#results = [];
    this.#isFaulty = false;
  }

  async landed(tokens: TokenBuffer): Promise<void> {
    this.numAwaited++;
    for (let turn = 0; turn < 3; turn++) await setImmediate();
    const last = this.#ended.findIndex((flight) => flight.tokens === tokens);
    for (const { tokens: own, results, isFaulty } of this.#ended.splice(0, last + 1)) {
      if (isFaulty) this.#failed.add(own);
      else for (const show of results) show();
    }
    this.numLanded++;
  }

  override waitFor(tokens: TokenBuffer): void {
    if (this.#ended.some((flight) => flight.tokens === tokens)) cannotBlock();
    if (this.#failed.delete(tokens)) throw new Error("injected fault");
  }

  override read(): void {
    cannotBlock();
  }

  override readPages(): void {
    cannotBlock();
  }

  override readStates(): void {
    cannotBlock();
  }
}

function cannotBlock(): never {
  throw new Error("this device cannot block");
}
