// Who guesses for a request: the predictor where it asks for one, else what knows texts.

import type { Request } from "../../core/request.js";
import type { Drafter } from "../../drafter/drafter.js";
import type { StepWorth } from "../../drafter/step-worth.js";
import type { Step } from "../../scheduler/scheduler.js";
import type { ModelDrafter } from "./model-drafter.js";

export class Drafters implements Drafter {
  readonly #texts: Drafter | null;
  readonly #predictor: ModelDrafter;

  constructor(texts: Drafter | null, predictor: ModelDrafter) {
    this.#texts = texts;
    this.#predictor = predictor;
  }

  propose(request: Request, most: number, worth: StepWorth): number {
    return this.#of(request)?.propose(request, most, worth) ?? 0;
  }

  isDeferred(request: Request): boolean {
    return request.draftsByModel;
  }

  finish(step: Step): void {
    this.#predictor.finish(step);
  }

  foresees(request: Request): boolean {
    return this.#of(request)?.foresees?.(request) ?? true;
  }

  observe(request: Request, numDrafted: number, numAccepted: number): void {
    this.#of(request)?.observe?.(request, numDrafted, numAccepted);
  }

  end(request: Request): void {
    this.#texts?.end?.(request);
    this.#predictor.end(request);
  }

  #of(request: Request): Drafter | null {
    return request.draftsByModel ? this.#predictor : this.#texts;
  }
}
