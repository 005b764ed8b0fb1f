// One client's requests: decodes as they come, chunks by order of arrival, the last one makes room. What a chunk is: chunk-sizer.ts.

import { canSample, hasWaitedLonger, isDecode, isPrefill, type Request } from "../core/request.js";
import type { Admission } from "./admission.js";
import type { ChunkSizer } from "./chunk-sizer.js";
import type { SharePolicy } from "./share-policy.js";
import type { StepBuilder } from "./step.js";

export class InOrder implements SharePolicy {
  readonly #admission: Admission;
  readonly #builder: StepBuilder;
  readonly #sizer: ChunkSizer;

  constructor(admission: Admission, builder: StepBuilder, sizer: ChunkSizer) {
    this.#admission = admission;
    this.#builder = builder;
    this.#sizer = sizer;
  }

  /** The last in order: those before it were here first or matter more. */
  victim(): Request {
    return this.#admission.running.last()!;
  }

  admit(): boolean {
    return true;
  }

  placeDecodes(reserved: number): void {
    const builder = this.#builder;
    const { running } = this.#admission;
    for (let i = 0; i < running.size && builder.left > reserved; i++) {
      const request = running.at(i);
      if (isDecode(request) && !builder.has(request) && canSample(request)) builder.placeDecode(request, reserved);
    }
  }

  /**
   * The first chunk goes to the prompt that has waited longest for one, so each has its turn; the others go by order of arrival,
   * so early prompts finish early. Waiting requests are admitted while budget and pages last, none overtaking another.
   */
  placeChunks(): boolean {
    const { running } = this.#admission;
    const first = this.#longestUnserved();
    if (first === null) return false;
    const isWaiting = first.state === "waiting";
    const isServed = isWaiting ? this.#admitNext() : this.#sizer.place(first);
    let canAdmit = isServed || !isWaiting;
    const owesPrompt = !isServed && this.#sizer.isShortOfBudget(first);
    for (let i = 0; i < running.size; i++) {
      const request = running.at(i);
      if (isPrefill(request) && !this.#builder.has(request)) this.#sizer.place(request);
    }
    while (canAdmit) canAdmit = this.#admitNext();
    return owesPrompt;
  }

  #longestUnserved(): Request | null {
    const { running } = this.#admission;
    let best: Request | null = null;
    for (let i = 0; i < running.size; i++) {
      const request = running.at(i);
      if (isPrefill(request) && (best === null || hasWaitedLonger(request, best))) best = request;
    }
    const head = this.#admission.nextWaiting();
    return head !== undefined && (best === null || hasWaitedLonger(head, best)) ? head : best;
  }

  #admitNext(): boolean {
    const head = this.#admission.nextWaiting();
    return head !== undefined && this.#sizer.tryAdmit(head);
  }
}
