// Launches flights: writes the batch, plans, runs the model and has the tokens chosen. Everything is queued on the device and
// nothing is read, but for prompt logprobs: a row of logits for each prompt token would not fit any flight, so each is scored and
// forgotten.

import type { AttentionPlanner } from "../../attention/planner.js";
import type { CacheManager } from "../../cache/cache-manager.js";
import type { StateCopies } from "../../cache/state-slots.js";
import type { AttentionPlan } from "../../core/attention-plan.js";
import type { Device, StatePool } from "../../device/device.js";
import type { Caches, Model } from "../../models/model.js";
import { isPlain, type Sampler } from "../../sampler/sampler.js";
import type { Flight } from "./flight.js";
import type { Session } from "./session.js";

export interface LauncherParts {
  readonly device: Device;
  readonly model: Model;
  readonly caches: Caches;
  readonly cache: CacheManager;
  readonly planners: readonly AttentionPlanner[];
  readonly maxLogitRows: number;
}

export class Launcher {
  readonly #parts: LauncherParts;
  readonly #sampler: Sampler;
  readonly #plans: AttentionPlan[] = [];

  constructor(parts: LauncherParts, sampler: Sampler) {
    this.#parts = parts;
    this.#sampler = sampler;
  }

  /** `previous` is the flight ahead when it may still be in the air: rows may begin with a token it has not given yet. */
  launch(flight: Flight, previous: Flight | null): void {
    const { device, model, caches, planners } = this.#parts;
    const { states } = this.#parts.cache;
    if (states !== null) this.#copyStates(states.before);
    for (let i = 0; i < planners.length; i++) this.#plans[i] = planners[i]!.plan(flight.batch);
    device.stage(flight.staged, flight.batch, this.#plans, previous === null ? null : previous.tokens);
    model.forward(flight.staged, caches);
    if (states !== null) this.#copyStates(states.after);
    this.#keepHidden(flight);
    this.#sample(flight);
    device.endFlight(flight.tokens);
  }

  #copyStates(copies: StateCopies): void {
    const { device, caches, cache } = this.#parts;
    for (let i = 0; i < copies.count; i++) {
      device.copyStates(caches[cache.stateIndex] as StatePool, copies.from[i]!, copies.to[i]!);
    }
    copies.clear();
  }

  /** The rows of hidden states that become vectors: all of a chunk for a mean, else the prompt's last. */
  #keepHidden(flight: Flight): void {
    const { step, batch, sessions } = flight;
    for (let r = 0; r < batch.numRows; r++) {
      const { kind, request } = sessions[r]!;
      if (kind === "generate") continue;
      const isLast = step.endOf(r) === request.numTokens;
      const count = kind === "embed_mean" ? step.queryLens[r]! : isLast ? 1 : 0;
      if (count > 0) {
        flight.keptOf[r] = flight.hidden.keep(this.#parts.model.hidden, batch.qoIndptr[r + 1]! - count, count);
      }
    }
  }

  /** Block by block, so that the memory of logits does not grow with the batch. */
  #sample(flight: Flight): void {
    const { model, maxLogitRows } = this.#parts;
    const total = flight.batch.numLogitRows;
    for (let first = 0; first < total; first += maxLogitRows) {
      const n = Math.min(maxLogitRows, total - first);
      model.computeLogits(flight.staged, first, n);
      this.#sampleBlock(flight, first, n);
    }
  }

  #sampleBlock(flight: Flight, first: number, n: number): void {
    const sampler = this.#sampler;
    const { logits } = this.#parts.model;
    let numPlain = 0;
    for (let i = 0; i < n; i++) {
      const row = flight.rowOfLogit[first + i]!;
      const session = flight.sessions[row]!;
      const { request, sampling } = session;
      const end = flight.step.endOf(row);
      sampler.skipRow(i);
      if (flight.lastLogit[row] === first + i) {
        const isByDevice = isPlain(request.sampling, sampling, end - request.promptLen);
        if (isByDevice) {
          sampler.prepareRow(i, request, end);
          flight.isByDevice[row] = 1;
          numPlain++;
        }
        // Further samples of the call draw from the same logits.
        if (!isByDevice || isForking(session)) flight.keptOf[row] = flight.logits.keep(logits, i, 1);
      }
      this.#score(flight, row, i, flight.batch.positions[flight.batch.logitRows[first + i]!]!);
    }
    if (numPlain > 0) sampler.chooseOnDevice(flight.tokens, first, logits, n);
  }

  /** Prompt logprobs: how probable the token after `position` was. */
  #score(flight: Flight, row: number, blockRow: number, position: number): void {
    const { request, promptLogprobs } = flight.sessions[row]!;
    if (promptLogprobs === null || position >= request.promptLen - 1) return;
    const entry = this.#sampler.scoreRow(
      this.#parts.model.logits,
      blockRow,
      request.tokens[position + 1]!,
      request.sampling.promptLogprobs!,
    );
    const scores = flight.scores[row] ?? { kind: "scores", first: position, entries: [] };
    scores.entries.push(entry);
    flight.scores[row] = scores;
  }
}

/** The first token of a call with several samples: the others begin from the same logits. */
export function isForking({ request }: Session): boolean {
  return request.sampling.n > 1 && request.sampleIndex === 0 && request.numGenerated === 0;
}
