// The engine itself: accept -> schedule -> plan -> launch -> commit. Synchronous, no I/O; a driver (driver.ts) calls `launch` and `commit`
// while there is work, awaits `landing` between them where the device cannot block, and carries the outputs away. Knows nothing of text, threads or HTTP.

import type { HeldAdapter } from "../../adapters/adapter-pool.js";
import type { AttentionPlanner } from "../../attention/planner.js";
import type { CacheManager } from "../../cache/cache-manager.js";
import type { Request } from "../../core/request.js";
import type { Device } from "../../device/device.js";
import { type Drafter, MAX_RUN } from "../../drafter/drafter.js";
import type { ConstraintCompiler } from "../../grammar/constraint.js";
import type { Caches, Model } from "../../models/model.js";
import { RowTable } from "../../sampler/row-table.js";
import { type LogitsHook, Sampler } from "../../sampler/sampler.js";
import type { Scheduler } from "../../scheduler/scheduler.js";
import type { AddMessage } from "../messages.js";
import type { StepOutputs } from "../outputs.js";
import type { CachePicture, EngineStats, StepPlan, StepRow } from "../types.js";
import { Commit, type VectorLayers } from "./commit.js";
import { Drafters } from "./drafters.js";
import { Flight } from "./flight.js";
import { Launcher } from "./launcher.js";
import { ModelDrafter, type PredictorParts } from "./model-drafter.js";
import type { PictureRows } from "./picture-rows.js";
import { type EngineSpeculation, SessionFactory } from "./session.js";
import { planOfRows } from "./step-plan.js";
import { StepRecorder } from "./step-recorder.js";

/** Everything a core is made of; load.ts builds it. */
export interface EngineParts {
  readonly name: string;
  readonly device: Device;
  readonly model: Model;
  /** One pool per cache group; a page has the same id in all of them. */
  readonly caches: Caches;
  /** As the model numbers its groups; left out: the same. */
  readonly modelCaches?: Caches;
  readonly pageSize: number;
  readonly cache: CacheManager;
  readonly scheduler: Scheduler;
  /** One per distinct window of the model, in its order. */
  readonly planners: readonly AttentionPlanner[];
  readonly maxLogitRows: number;
  readonly maxContext: number;
  readonly eosIds: readonly number[];
  readonly compiler: ConstraintCompiler | null;
  /** The text of a token; left out: the model has no tokenizer. */
  readonly tokenText?: (token: number) => string;
  /** What pooled hidden states go through; left out: nothing. */
  readonly layers?: VectorLayers;
  readonly clock: () => number;
  /** Guesses tokens to come; left out: nobody does. */
  readonly drafter?: Drafter | null;
  /** Guesses with weights of its own; left out: nobody does. */
  readonly predictor?: PredictorParts | null;
  /** For requests that do not say; left out: as much as there can be. */
  readonly speculation?: EngineSpeculation;
  /** Left out: the model has no eyes. */
  readonly pictures?: PictureRows;
}

export class EngineCore {
  readonly recorder: StepRecorder;
  readonly #parts: EngineParts;
  readonly #drafter: Drafter | null;
  readonly #modelDrafter: ModelDrafter | null;
  readonly #launcher: Launcher;
  readonly #commit: Commit;
  /** Not in flight. */
  readonly #free: Flight[];
  /** Launched and not landed, oldest first. */
  readonly #inFlight: Flight[] = [];
  /** The oldest flights that land before another starts: commit() is due for them. */
  #numDue = 0;
  #injectFault = false;

  constructor(parts: EngineParts) {
    const { device, model, scheduler, pageSize } = parts;
    this.#parts = parts;
    this.recorder = new StepRecorder(parts);
    const table = RowTable.for(scheduler.budget, parts.maxContext);
    device.reserveRows(table.numWords);
    const sampler = new Sampler(model.spec.vocabSize, table);
    this.#modelDrafter = parts.predictor ? this.#followedBy(parts.predictor, sampler) : null;
    const texts = parts.drafter ?? null;
    this.#drafter = this.#modelDrafter === null ? texts : new Drafters(texts, this.#modelDrafter);
    const factory = new SessionFactory({
      ...parts,
      hiddenSize: model.spec.hiddenSize,
      isBidirectional: model.spec.isBidirectional ?? false,
      takesLateMasks: parts.cache.states === null, // a state cannot go back by a token
      speculation: this.#drafter === null ? null : (parts.speculation ?? { method: "suffix", tokens: MAX_RUN - 1 }),
    });
    this.#launcher = new Launcher(parts, sampler, this.recorder.clock);
    this.#commit = new Commit(parts, factory, sampler, this.recorder, this.#drafter, this.#modelDrafter);
    this.#free = Array.from(
      // A predictor reads the hidden states of the last flight.
      { length: this.#modelDrafter === null ? device.info.asyncDepth : 1 },
      () => new Flight(scheduler.createStep(), device, pageSize, scheduler.budget, parts.cache, model.spec.hiddenSize),
    );
  }

  /**
   * The loop's body where the device can block: a flight starts, and the oldest lands when no further one could start. Returns false
   * when nothing is left to do.
   */
  step(): boolean {
    if (!this.launch()) return false;
    this.commit();
    return true;
  }

  /** The same on any device. */
  async stepAsync(): Promise<boolean> {
    const hasMoved = this.launch();
    await this.landing();
    this.commit();
    this.encodePictures();
    if (!hasMoved && this.#parts.pictures?.isBusy) await new Promise(setImmediate); // a tower reads from the device
    return hasMoved;
  }

  /** The late flight draws, if there is one, and another starts if one can; decides which ones must land before the next. Returns false when nothing is left to do. */
  launch(): boolean {
    this.#parts.compiler?.settle();
    this.#drawLate();
    const flight = this.#schedule();
    if (flight !== null) this.#launch(flight);
    if (this.#inFlight.length === 0) return false;
    if (flight !== null && flight.fault !== null)
      this.#numDue = this.#inFlight.length; // nothing is launched on top of what never started
    else if (flight === null || this.#free.length === 0) this.#numDue = 1;
    return true;
  }

  /** What to await before commit(); null: nothing, since the device can block or no flight is due. */
  landing(): Promise<unknown> | null {
    const { device } = this.#parts;
    if (device.landed === undefined || this.#numDue === 0) return null;
    const due = this.#inFlight.slice(0, this.#numDue).filter(({ fault }) => fault === null); // the others never started
    return Promise.all(due.map(({ tokens }) => device.landed!(tokens)));
  }

  get deviceName(): string {
    return this.#parts.device.info.name;
  }

  /** No flight can land any more: the engine has to be opened again. */
  get isDeviceLost(): boolean {
    return this.#parts.device.isLost === true;
  }

  /** Lands the flights that are due. */
  commit(): void {
    for (; this.#numDue > 0; this.#numDue--) this.#land(this.#inFlight.shift()!);
  }

  /** Between steps: the tower of pictures runs for a while, where one is to be encoded. */
  encodePictures(): void {
    const { pictures } = this.#parts;
    if (pictures === undefined) return;
    if (pictures.isBusy) pictures.turn();
    for (const { request, error } of pictures.takeFailed()) this.#commit.failRequest(request, error);
  }

  /** The tower of pictures can go on at once. */
  get canEncode(): boolean {
    return this.#parts.pictures?.canMove ?? false;
  }

  /** The next flight with its rows chosen; null: nothing can run, or not before a flight has landed. */
  #schedule(): Flight | null {
    const { scheduler, clock } = this.#parts;
    const flight = this.#free.at(-1)!;
    const isScheduled = scheduler.schedule(flight.step) !== null;
    for (const request of scheduler.takeRefused()) this.#commit.refuse(request);
    if (!isScheduled) return null;
    if (this.#drafter !== null) scheduler.draft(flight.step, this.#drafter);
    flight.startMs = clock();
    return flight;
  }

  /** Queues the flight's work on the device. */
  #launch(flight: Flight): void {
    const previous = this.#inFlight.at(-1) ?? null;
    this.#inFlight.push(flight);
    this.#free.pop();
    flight.clear();
    for (let r = 0; r < flight.step.numRows; r++) flight.addRow();
    try {
      this.#takeFault();
      this.#launcher.launch(flight, previous);
      this.#modelDrafter?.follow(flight);
    } catch (error) {
      flight.isLate = false;
      flight.fault = error;
    }
  }

  /** What was launched before its masks could be known: the flight ahead of it has landed since, or nobody waits for it. */
  #drawLate(): void {
    const flight = this.#inFlight.at(-1);
    if (flight === undefined || !flight.isLate) return;
    try {
      this.#launcher.drawLate(flight);
    } catch (error) {
      flight.isLate = false;
      flight.fault = error;
    }
  }

  /** The flight has landed: its pages are published, its tokens appended and sent, what ended is freed. */
  #land(flight: Flight): void {
    this.#wait(flight);
    this.recorder.clock.mark("wait");
    this.#commit.take(flight);
    flight.sessions.length = 0;
    this.#free.push(flight);
    this.recorder.clock.mark("commit");
  }

  #wait(flight: Flight): void {
    if (flight.fault !== null) return; // it never started
    try {
      this.#parts.device.waitFor(flight.tokens);
    } catch (error) {
      flight.fault = error;
    }
  }

  // --- between steps -----------------------------------------------------------------------------------------------

  get hasWork(): boolean {
    return this.#commit.sessions.size > 0 || this.#inFlight.length > 0;
  }

  get numInFlight(): number {
    return this.#inFlight.length;
  }

  /** What came out since the last call; null: nothing. */
  takeOutputs(): StepOutputs | null {
    return this.#commit.takeOutputs();
  }

  /** `adapter` is released when the last of its samples ends. */
  add(message: AddMessage, editLogits: LogitsHook | null = null, adapter: HeldAdapter | null = null): void {
    this.#commit.open(message, editLogits, adapter);
  }

  /** Reports a call that could not be added. */
  failCall(callId: string, error: unknown): void {
    this.#commit.failCall(callId, error);
  }

  /** A flight under way has rows of the adapter in this slot. */
  isAdapterInFlight(slot: number): boolean {
    return this.#inFlight.some(({ batch }) => batch.adapterSlots.subarray(0, batch.numRows).includes(slot));
  }

  /** Ends one sample of a call, or all of them (-1), and reports how they fared; silent for those already over. */
  abort(callId: string, index: number): void {
    this.#commit.abort(callId, index);
  }

  stats(): EngineStats {
    const { name, device, pageSize } = this.#parts;
    const stats = this.recorder.stats(name, device, pageSize);
    return { ...stats, pictures: this.#parts.pictures?.stats() ?? stats.pictures };
  }

  cacheSnapshot(): CachePicture {
    const requests = this.#owners().map((request) => ({
      id: request.id,
      tables: request.tables.map(({ pages, first, numPages }) => Array.from(pages.subarray(first, numPages))),
    }));
    return { ...this.#parts.cache.snapshot(), requests };
  }

  /** The attention plans of a step with these rows. */
  planOf(rows: readonly StepRow[]): StepPlan[] {
    const { planners, pageSize, model } = this.#parts;
    return planOfRows(rows, planners, pageSize, model.spec.isBidirectional ?? false);
  }

  /** Proves that no page is lost; tests call it between steps. */
  checkIntegrity(): void {
    this.#parts.cache.checkIntegrity(this.#owners());
  }

  /** The next flight fails as if the device had: proves that a failed flight harms only its rows. */
  injectFault(): void {
    this.#injectFault = true;
  }

  /** Ends everything that is being served; all flights are due: after landing() and commit() nothing is owned any more. */
  stop(): void {
    this.#commit.abortAll();
    this.#drawLate();
    this.#numDue = this.#inFlight.length;
  }

  close(): void {
    this.#commit.dispose();
    this.#parts.compiler?.close();
    this.#parts.device.close();
  }

  /** Requests that may own pages: those being served, and those that ended in flight. */
  #owners(): Request[] {
    const owners = new Set<Request>();
    for (const { request } of this.#commit.sessions) owners.add(request);
    for (const { step } of this.#inFlight) for (let r = 0; r < step.numRows; r++) owners.add(step.rows[r]!);
    return [...owners];
  }

  #followedBy(predictor: PredictorParts, sampler: Sampler): ModelDrafter {
    const { device, pageSize, scheduler, maxLogitRows, cache } = this.#parts;
    const room = { pageSize, maxTokens: scheduler.budget, maxLogitRows, numPaged: cache.numPaged };
    return new ModelDrafter(device, predictor, sampler, {
      ...room,
      vocabSize: this.#parts.model.spec.vocabSize,
      clock: this.#parts.clock,
    });
  }

  #takeFault(): void {
    if (!this.#injectFault) return;
    this.#injectFault = false;
    throw new Error("injected fault");
  }
}
