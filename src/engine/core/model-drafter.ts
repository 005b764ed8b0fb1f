// Guesses by a predictor: a draft model, or heads of the model. In every flight it follows the model over the same tokens, so that its caches hold
// what the model's hold. Before a step it guesses for all rows together, one token of each in a pass:
//
//   pass 0   | row a | row b | row c |      rows that want most guesses first, so that those of a pass are always the first of it
//   pass 1   | row a | row b |
//   pass 2   | row a |
//
// A guess is drawn by the rule and the random number of the token it stands for: a predictor that is the model is always right, at any temperature.

import type { AttentionPlanner } from "../../attention/planner.js";
import type { AttentionPlan } from "../../core/attention-plan.js";
import { Batch } from "../../core/batch.js";
import { Draws } from "../../core/draws.js";
import type { Request } from "../../core/request.js";
import type { Device, StagedBatch, TokenBuffer } from "../../device/device.js";
import { Acceptance } from "../../drafter/acceptance.js";
import type { Drafter } from "../../drafter/drafter.js";
import type { StepWorth } from "../../drafter/step-worth.js";
import type { Caches } from "../../models/model.js";
import type { Predictor } from "../../models/predictors/predictor.js";
import type { Sampler } from "../../sampler/sampler.js";
import type { Step } from "../../scheduler/scheduler.js";
import type { Flight } from "./flight.js";
import type { Session } from "./session.js";

/** Of what acceptance begins with: a predictor is right more often than a short match of text. */
const MATCH_LEN = 8;
/** How much of a pass's time is believed. */
const LEARNING_RATE = 0.2;

export interface PredictorParts {
  readonly predictor: Predictor;
  /** Of its groups. */
  readonly caches: Caches;
  /** Of its plans. */
  readonly planners: readonly AttentionPlanner[];
}

interface Guessing {
  readonly acceptance: Acceptance;
  /** Of the model's token at `position`; nothing for a predictor that asks for nothing. */
  readonly features: Float32Array;
  position: number;
}

interface Room {
  readonly pageSize: number;
  readonly maxTokens: number;
  readonly maxLogitRows: number;
  /** Groups with pages, of the model and the predictor together. */
  readonly numPaged: number;
  /** Of the model. */
  readonly vocabSize: number;
  readonly clock: () => number;
}

export class ModelDrafter implements Drafter {
  readonly #device: Device;
  readonly #parts: PredictorParts;
  readonly #maxLogitRows: number;
  readonly #vocabSize: number;
  readonly #clock: () => number;
  /** What a pass takes for each of its rows; 0: not known. */
  #rowMs = 0;
  readonly #batch: Batch;
  readonly #staged: StagedBatch;
  readonly #tokens: TokenBuffer;
  /** Of flights that follow: nothing is sampled there. */
  readonly #noTokens: TokenBuffer;
  readonly #plans: AttentionPlan[] = [];
  readonly #draws = new Draws();
  readonly #sampler: Sampler;
  readonly #guessing = new Map<Request, Guessing>();
  /** Of the step that is drafted for, those with most guesses first. */
  readonly #wanting: Request[] = [];
  #numWanting = 0;
  #given: Float32Array;
  #isFollowing = false;

  constructor(device: Device, parts: PredictorParts, sampler: Sampler, room: Room) {
    const { pageSize, maxTokens, maxLogitRows, numPaged, vocabSize, clock } = room;
    this.#vocabSize = vocabSize;
    this.#clock = clock;
    this.#device = device;
    this.#parts = parts;
    this.#sampler = sampler;
    this.#maxLogitRows = maxLogitRows;
    this.#batch = new Batch(pageSize, maxTokens, numPaged);
    this.#staged = device.createStagedBatch(maxTokens);
    this.#tokens = device.createTokenBuffer(maxTokens);
    this.#noTokens = device.createTokenBuffer(1);
    this.#given = new Float32Array(16 * this.#width);
  }

  get #width(): number {
    return this.#parts.predictor.features?.cols ?? 0;
  }

  // --- in flights --------------------------------------------------------------------------------------------------

  /** The flight has been launched: the predictor's caches get what the model's got. */
  follow({ step }: Flight): void {
    const { predictor } = this.#parts;
    const batch = this.#batch;
    this.#settle();
    batch.clear();
    for (let r = 0; r < step.numRows; r++) {
      const start = step.starts[r]!;
      this.#addRow(step.rows[r]!, start, step.endOf(r) - start, Number.POSITIVE_INFINITY);
    }
    this.#stage();
    predictor.forward(this.#staged, this.#parts.caches, "model");
    this.#device.submit(this.#noTokens);
    this.#isFollowing = true;
  }

  /** Row `row` of a landed flight has given the request tokens: what the predictor needs of the last one that the model has computed. */
  landed({ batch, step }: Flight, row: number, request: Request): void {
    const { features } = this.#parts.predictor;
    if (features === null) return;
    const guessing = this.#of(request);
    guessing.position = request.numTokens - 2;
    const t = batch.qoIndptr[row]! + guessing.position - step.starts[row]!;
    this.#device.read(guessing.features, features, t, 1);
  }

  // --- before a step -----------------------------------------------------------------------------------------------

  /** How many guesses it will make; finish() makes them. */
  propose(request: Request, most: number, worth: StepWorth): number {
    const { predictor } = this.#parts;
    const { acceptance, position } = this.#of(request);
    if (predictor.features !== null && position !== request.numTokens - 2) return 0;
    const rate = acceptance.rateOf(MATCH_LEN);
    let probability = rate;
    let count = 0;
    const cost = 1 + worth.tokensIn(this.#rowMs);
    while (count < most && worth.pays(probability, cost)) {
      worth.add(probability, cost);
      probability *= rate;
      count++;
    }
    if (count === 0) acceptance.skip(MATCH_LEN);
    return count;
  }

  /** Makes the guesses of all rows of the step that want some; where it cannot, none. */
  finish(step: Step): void {
    this.#numWanting = 0;
    for (let r = 0; r < step.numRows; r++) {
      const request = step.rows[r]!;
      if (request.draftsByModel && request.numDrafted > 0) this.#addWanting(request);
    }
    try {
      for (let pass = 0; this.#numWanting > 0; pass++) this.#runPass(pass);
    } catch {
      for (let r = 0; r < step.numRows; r++) if (step.rows[r]!.draftsByModel) step.rows[r]!.numDrafted = 0;
    }
  }

  observe(request: Request, numDrafted: number, numAccepted: number): void {
    this.#guessing.get(request)?.acceptance.observe(MATCH_LEN, numDrafted, numAccepted);
  }

  end(request: Request): void {
    this.#guessing.delete(request);
  }

  #of(request: Request): Guessing {
    let guessing = this.#guessing.get(request);
    if (guessing === undefined) {
      guessing = { acceptance: new Acceptance(), features: new Float32Array(this.#width), position: -1 };
      this.#guessing.set(request, guessing);
    }
    return guessing;
  }

  #addWanting(request: Request): void {
    const wanting = this.#wanting;
    let at = this.#numWanting++;
    while (at > 0 && wanting[at - 1]!.numDrafted < request.numDrafted) {
      wanting[at] = wanting[at - 1]!;
      at--;
    }
    wanting[at] = request;
  }

  /** Guess `pass` of all rows that want so many. */
  #runPass(pass: number): void {
    const { predictor, caches } = this.#parts;
    const wanting = this.#wanting;
    while (this.#numWanting > 0 && wanting[this.#numWanting - 1]!.numDrafted <= pass) this.#numWanting--;
    const n = this.#numWanting;
    if (n === 0) return;
    const startMs = this.#clock();
    this.#settle();
    this.#batch.clear();
    for (let i = 0; i < n; i++) {
      const request = wanting[i]!;
      this.#addRow(request, request.numTokens - 1 - predictor.lead + pass, 1, 0);
    }
    this.#stage();
    if (pass === 0) this.#give(n);
    predictor.forward(this.#staged, caches, pass === 0 ? "given" : "own");
    for (let first = 0; first < n; first += this.#maxLogitRows) {
      const count = Math.min(this.#maxLogitRows, n - first);
      predictor.computeLogits(this.#staged, first, count);
      this.#draws.clear();
      for (let i = 0; i < count; i++) {
        const request = wanting[first + i]!;
        const { sampling } = request.owner as Session;
        const position = request.numTokens + pass;
        this.#sampler.addGuess(this.#draws, i, request, sampling, position, predictor.vocabulary === null);
      }
      this.#device.sample(this.#tokens, first, predictor.logits, count, this.#draws);
    }
    this.#device.submit(this.#tokens);
    this.#device.waitFor(this.#tokens);
    const rowMs = (this.#clock() - startMs) / n;
    this.#rowMs += (this.#rowMs === 0 ? 1 : LEARNING_RATE) * (rowMs - this.#rowMs);
    const { ids } = this.#tokens;
    for (let i = 0; i < n; i++) {
      const { tokens, numTokens } = wanting[i]!;
      const id = Math.max(ids[i]!, 0); // no token was left: any guess will do
      const token = predictor.vocabulary === null ? id : predictor.vocabulary[id]!;
      tokens[numTokens + pass] = token < this.#vocabSize ? token : 0; // ids beyond the tokenizer's are padding
    }
  }

  /** What is known of the rows' last tokens that the model has computed. */
  #give(n: number): void {
    const width = this.#width;
    if (width === 0) return;
    if (this.#given.length < n * width) this.#given = new Float32Array(2 * n * width);
    for (let i = 0; i < n; i++) this.#given.set(this.#guessing.get(this.#wanting[i]!)!.features, i * width);
    this.#parts.predictor.give(this.#given, n);
  }

  /** The request's tokens at [start, start + count), each with the id that the predictor reads there. */
  #addRow(request: Request, start: number, count: number, logitsFrom: number): void {
    const batch = this.#batch;
    const { tables, tokens, numTokens, numDrafted } = request;
    const { lead, vocabSize } = this.#parts.predictor;
    const first = batch.numTokens;
    batch.addRow(tokens, start, count, tables[0]!.pages, logitsFrom);
    for (let g = 1; g < batch.groups.length; g++) batch.addPages(g, tables[g]!.pages);
    // The last one may not be known yet: what is written there is written again, by the first pass behind it.
    const last = numTokens + numDrafted - 1;
    const largest = vocabSize - 1;
    if (lead === 0 && vocabSize >= this.#vocabSize) return;
    for (let i = 0; i < count; i++)
      batch.inputIds[first + i] = Math.min(tokens[Math.min(start + i + lead, last)]!, largest);
  }

  #stage(): void {
    const { planners } = this.#parts;
    for (let i = 0; i < planners.length; i++) this.#plans[i] = planners[i]!.plan(this.#batch);
    this.#device.stage(this.#staged, this.#batch, this.#plans);
  }

  /** What was staged last has been read. */
  #settle(): void {
    if (this.#isFollowing) this.#device.waitFor(this.#noTokens);
    this.#isFollowing = false;
  }
}
