// Launches flights: writes the batch, plans, runs the model and has the tokens chosen. Everything is queued on the device and
// nothing is read; logits stay there unless a caller's hook edits them.

import type { AttentionPlanner } from "../../attention/planner.js";
import type { CacheManager } from "../../cache/cache-manager.js";
import type { StateCopies } from "../../cache/state-slots.js";
import type { AttentionPlan } from "../../core/attention-plan.js";
import { Draws } from "../../core/draws.js";
import { bucket } from "../../core/math.js";
import { forksAt } from "../../core/request.js";
import type { Device, StatePool } from "../../device/device.js";
import type { Caches, Model } from "../../models/model.js";
import type { Sampler } from "../../sampler/sampler.js";
import type { Flight } from "./flight.js";
import { neededStates } from "./pooling.js";
import type { Session } from "./session.js";
import type { HostClock } from "./step-recorder.js";

/** So many alike: the size is worth knowing without padding. */
const STEADY_STEPS = 64;
/** Larger steps are no graphs, or change little by a few rows. */
const MOST_PADDED = 256;
const MOST_PADDED_TOKENS = 512;

export interface LauncherParts {
  readonly device: Device;
  readonly model: Model;
  readonly caches: Caches;
  /** As the model numbers its groups; left out: the same. */
  readonly modelCaches?: Caches;
  readonly cache: CacheManager;
  readonly planners: readonly AttentionPlanner[];
  readonly maxLogitRows: number;
}

export class Launcher {
  readonly #parts: LauncherParts;
  readonly #sampler: Sampler;
  readonly #clock: HostClock;
  readonly #plans: AttentionPlan[] = [];
  readonly #draws = new Draws();
  readonly #forks = new Draws();
  /** The device would know padded steps, and no table points to the null page for a row that is read. */
  readonly #canPad: boolean;
  /** Rows and tokens of the last batch of decodes, and how many before it had as many. */
  #lastRows = 0;
  #lastTokens = 0;
  #numSteady = 0;

  constructor(parts: LauncherParts, sampler: Sampler, clock: HostClock) {
    this.#parts = parts;
    this.#sampler = sampler;
    const { device, model } = parts;
    this.#canPad =
      device.tryReplay !== undefined && model.spec.caches.every(({ kind }) => kind === "full" || kind === "latent");
    this.#clock = clock;
  }

  /**
   * `previous` is the flight ahead when it may still be in flight: rows may begin with a token it has not given yet. A late flight only begins:
   * drawLate() ends it.
   */
  launch(flight: Flight, previous: Flight | null): void {
    const { device, model, caches, modelCaches = caches, planners } = this.#parts;
    const { states } = this.#parts.cache;
    this.#sampler.beginFlight();
    if (states !== null) this.#copyStates(states.before);
    if (this.#canPad && flight.isPlain) this.#padDecodes(flight);
    this.#clock.mark("schedule");
    for (let i = 0; i < planners.length; i++) this.#plans[i] = planners[i]!.plan(flight.batch);
    this.#clock.mark("plan");
    device.stage(flight.staged, flight.batch, this.#plans, previous === null ? null : previous.tokens);
    this.#clock.mark("stage");
    if (states !== null && states.after.count > 0) flight.isPlain = false;
    if (flight.batch.numLogitRows > this.#parts.maxLogitRows) flight.isPlain = false;
    // What is sampled is written first: the device may know the step.
    if (flight.isPlain && !flight.isLate && this.#tryReplay(flight)) {
      this.#submit(flight);
      return;
    }
    model.forward(flight.staged, modelCaches, flight.media.inputs, flight.media.places);
    if (states !== null) this.#copyStates(states.after);
    this.#keepHidden(flight);
    if (!flight.isLate) {
      this.#sample(flight);
      return;
    }
    device.start?.();
    this.#clock.mark("launch");
  }

  /** The flight ahead has landed: the late flight draws. A row whose mask is not there even now gives its draw up. */
  drawLate(flight: Flight): void {
    if (flight.isPlain) this.#drawPlain(flight);
    this.#sample(flight);
    flight.isLate = false;
  }

  #submit(flight: Flight): void {
    this.#parts.device.submit(flight.tokens);
    this.#clock.mark("launch");
  }

  /**
   * While rows join and leave, and have more or fewer guesses, a batch of decodes gets a size that comes back; one that stays has its own before
   * long. Every token of a decode draws.
   */
  #padDecodes(flight: Flight): void {
    const { batch } = flight;
    const { numRows, numTokens, numLogitRows } = batch;
    if (numLogitRows !== numTokens) return;
    this.#numSteady = numRows === this.#lastRows && numTokens === this.#lastTokens ? this.#numSteady + 1 : 0;
    this.#lastRows = numRows;
    this.#lastTokens = numTokens;
    if (this.#numSteady >= STEADY_STEPS) return;
    let rows = bucket(numRows);
    let tokens = bucket(numTokens);
    const most = Math.min(batch.maxTokens, this.#parts.maxLogitRows, MOST_PADDED_TOKENS);
    while (rows <= MOST_PADDED && tokens <= most) {
      // Tokens come in rows of a page at most, and rows have one at least.
      if (tokens - numTokens > (rows - numRows) * batch.pageSize) rows = bucket(rows + 1);
      else if (rows - numRows > tokens - numTokens) tokens = bucket(tokens + 1);
      else {
        flight.pad(rows, tokens);
        return;
      }
    }
  }

  #tryReplay(flight: Flight): boolean {
    const { device, model } = this.#parts;
    this.#drawPlain(flight);
    return device.tryReplay?.(flight.staged, flight.tokens, model.logits, this.#draws) === true;
  }

  /** Of a flight in which every logit row is a draw, and nothing is read but tokens. */
  #drawPlain(flight: Flight): void {
    const { batch, firstDraw, lastLogit, step } = flight;
    const draws = this.#draws;
    draws.clear();
    for (let r = 0; r < step.numRows; r++) {
      const last = lastLogit[r]!;
      if (last >= 0) for (let i = firstDraw[r]!; i <= last; i++) this.#draw(flight, r, i, i);
    }
    while (draws.count < batch.numLogitRows) draws.addGreedy(draws.count); // of padding
  }

  #copyStates(copies: StateCopies): void {
    const { device, caches, cache } = this.#parts;
    for (let i = 0; i < copies.count; i++) {
      device.copyStates(caches[cache.stateIndex] as StatePool, copies.from[i]!, copies.to[i]!);
    }
    copies.clear();
  }

  /** The rows of hidden states that become vectors. */
  #keepHidden(flight: Flight): void {
    const { step, batch, sessions } = flight;
    for (let r = 0; r < step.numRows; r++) {
      const { pooled, request } = sessions[r]!;
      if (pooled === null) continue;
      const start = step.starts[r]!;
      const [from, to] = neededStates(pooled.pooling, start, step.endOf(r), request.numTokens);
      if (from === to) continue;
      const row = batch.qoIndptr[r]! + from - start;
      flight.readbacks[r] = flight.hidden.keep(this.#parts.model.hidden, row, to - from);
    }
  }

  /** The flight's end. Block by block, so that the memory of logits does not grow with the batch; the draws of a plain flight are written already. */
  #sample(flight: Flight): void {
    const { device, model, maxLogitRows } = this.#parts;
    const total = flight.batch.numLogitRows;
    for (let first = 0; first < total; first += maxLogitRows) {
      const n = Math.min(maxLogitRows, total - first);
      model.computeLogits(flight.staged, first, n);
      if (flight.isPlain) device.sample(flight.tokens, 0, model.logits, n, this.#draws);
      else this.#sampleBlock(flight, first, n);
    }
    this.#submit(flight);
  }

  /** For each logit row a draw, or a report on the prompt's next token. Forks have theirs behind all others. */
  #sampleBlock(flight: Flight, first: number, n: number): void {
    const { device, model } = this.#parts;
    const draws = this.#draws;
    const forks = this.#forks;
    draws.clear();
    forks.clear();
    const firstFork = flight.batch.maxTokens + flight.numForks;
    for (let i = 0; i < n; i++) {
      const row = flight.rowOfLogit[first + i]!;
      const { request } = flight.sessions[row]!;
      const position = flight.batch.positions[flight.batch.logitRows[first + i]!]!;
      if (flight.isDraw(row, first + i)) this.#draw(flight, row, first + i, i);
      else {
        draws.addGiven(i, request.tokens[position + 1]!, request.sampling.promptLogprobs!); // after the prompt's last nobody reads it
      }
    }
    device.sample(flight.tokens, first, model.logits, n, draws);
    if (forks.count > 0) device.sample(flight.tokens, firstFork, model.logits, n, forks);
  }

  #draw(flight: Flight, row: number, logitRow: number, blockRow: number): void {
    const session = flight.sessions[row]!;
    const { request, sampling } = session;
    const end = flight.step.endOf(row) - (flight.lastLogit[row]! - logitRow);
    if (flight.isLate && !canDraw(session)) {
      if (request.state !== "finished") request.giveUpDraw();
      flight.lastLogit[row] = -1;
      this.#draws.addGreedy(blockRow);
      return;
    }
    // A hook edits on the host, and further samples of the call draw from what it made.
    if (sampling.editLogits !== null) {
      flight.readbacks[row] = flight.logits.keep(this.#parts.model.logits, blockRow, 1);
      this.#draws.addGreedy(blockRow);
      return;
    }
    const numForks = forksAt(request, end);
    try {
      this.#sampler.addDraw(this.#draws, blockRow, request, sampling, end);
      flight.forkEntries[row] = flight.reserveForks(numForks);
      for (let index = 1; index <= numForks; index++) {
        this.#sampler.addFork(this.#forks, blockRow, request, sampling, index);
      }
    } catch (error) {
      flight.rowFaults[row] = error;
    }
  }
}

/** It has not ended with the flight ahead, and its mask is there. */
function canDraw({ request, sampling }: Session): boolean {
  return request.state !== "finished" && sampling.constraint?.isReady() !== false;
}
