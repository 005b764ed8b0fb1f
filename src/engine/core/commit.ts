// The requests being served, and what a landed flight gives them: its draws are read, taken by their requests as far as they go, and written
// into the outputs; who has ended gives back what it had.

import type { HeldAdapter } from "../../adapters/adapter-pool.js";
import { type CacheManager, NO_COPY } from "../../cache/cache-manager.js";
import { MAX_TOP_LOGPROBS } from "../../core/draws.js";
import { endsWithPrompt, type FinishReason, isForking, type Request } from "../../core/request.js";
import { createSampled, type Sampled } from "../../core/sample-row.js";
import type { Device, KvPool } from "../../device/device.js";
import type { Drafter } from "../../drafter/drafter.js";
import type { HostLayer } from "../../models/blocks/host-layers.js";
import type { Caches } from "../../models/model.js";
import { endsInLoop } from "../../sampler/dry.js";
import { type LogitsHook, logprobsAt, type Run, type Sampler, takeDrawn } from "../../sampler/sampler.js";
import type { Scheduler } from "../../scheduler/scheduler.js";
import { type AddMessage, toWire } from "../messages.js";
import { type OutputNote, OutputTable, type StepOutputs } from "../outputs.js";
import type { Flight } from "./flight.js";
import type { ModelDrafter } from "./model-drafter.js";
import { poolChunk } from "./pooling.js";
import { type Session, type SessionFactory, traceOf } from "./session.js";
import type { StepRecorder } from "./step-recorder.js";

/** What a pooled vector goes through, by the kind of request. */
export interface VectorLayers {
  readonly embed: HostLayer | null;
  readonly score: HostLayer | null;
}

interface CommitParts {
  readonly scheduler: Scheduler;
  readonly device: Device;
  readonly caches: Caches;
  readonly cache: CacheManager;
  /** Left out: nothing. */
  readonly layers?: VectorLayers;
  readonly clock: () => number;
}

export class Commit {
  /** Those being served. */
  readonly sessions = new Set<Session>();
  readonly #parts: CommitParts;
  readonly #factory: SessionFactory;
  readonly #sampler: Sampler;
  readonly #recorder: StepRecorder;
  readonly #drafter: Drafter | null;
  readonly #predictor: ModelDrafter | null;
  /** Rows run ahead unless they have guesses to try. */
  readonly #leavesOverlap: boolean;
  readonly #outputs = new OutputTable();
  /** Of the row that is looked at. */
  readonly #run: Run = { sampled: createSampled(0), first: 0, count: 0 };

  constructor(
    parts: CommitParts,
    factory: SessionFactory,
    sampler: Sampler,
    recorder: StepRecorder,
    drafter: Drafter | null,
    predictor: ModelDrafter | null = null,
  ) {
    this.#parts = parts;
    this.#factory = factory;
    this.#sampler = sampler;
    this.#recorder = recorder;
    this.#drafter = drafter;
    this.#predictor = predictor;
    this.#leavesOverlap = drafter !== null && parts.device.info.asyncDepth > 1;
  }

  // --- calls -------------------------------------------------------------------------------------------------------

  open(message: AddMessage, editLogits: LogitsHook | null, adapter: HeldAdapter | null): void {
    try {
      const session = this.#factory.open(message, editLogits, adapter);
      session.request.acceptedMs = this.#parts.clock();
      this.#parts.scheduler.add(session.request);
      this.#serve(session);
    } catch (error) {
      adapter?.release();
      this.failCall(message.callId, error);
    }
  }

  /** A call that could not be opened. */
  failCall(callId: string, error: unknown): void {
    this.#addRowAlone(callId, 0, { finishReason: "error", error: toWire(error, "step_failed") });
  }

  /** Ends one sample of a call, or all of them (-1), and reports how they fared; silent for those already over. */
  abort(callId: string, index: number): void {
    for (const session of this.sessions) {
      if (session.callId !== callId || (index >= 0 && session.request.sampleIndex !== index)) continue;
      this.#end(session, "abort");
    }
  }

  abortAll(): void {
    for (const session of this.sessions) this.#end(session, "abort");
  }

  /** Ends a request that cannot go on. */
  failRequest(request: Request, error: unknown): void {
    if (request.state !== "finished") this.#fail(request.owner as Session, error);
  }

  /** Reports a request that the scheduler has ended: it outgrew the whole pool (checked at the border too; this is the second line). */
  refuse(request: Request): void {
    const finishReason = request.finishReason!;
    const isFault = finishReason === "error";
    const error = isFault ? toWire(new Error("it needs more pages than the pool has"), "step_failed") : null;
    this.#close(request.owner as Session, finishReason, { error });
  }

  /** What came out since the last call; null: nothing. */
  takeOutputs(): StepOutputs | null {
    return this.#outputs.take(this.#recorder.takeRecord());
  }

  dispose(): void {
    for (const session of this.sessions) session.sampling.constraint?.dispose();
    this.sessions.clear();
  }

  #serve(session: Session): void {
    const { id, sampleIndex, promptLen } = session.request;
    session.handle = this.#outputs.open(session.callId, sampleIndex, id, promptLen);
    session.request.owner = session;
    this.sessions.add(session);
  }

  // --- flights -----------------------------------------------------------------------------------------------------

  /** A flight that has landed, or failed. */
  take(flight: Flight): void {
    const { step, fault } = flight;
    const { scheduler } = this.#parts;
    if (fault === null) {
      this.#recorder.record(flight);
      scheduler.land(step);
      // Forks share the parent's pages, so they come before the parent may end and give them back.
      for (let r = 0; r < step.numRows; r++) this.#fork(flight, r);
    } else scheduler.crash(step);
    for (let r = 0; r < step.numRows; r++) {
      const session = flight.sessions[r]!;
      if (session.request.state === "finished") this.#drop(session);
      else if (fault !== null) this.#fail(session, fault);
      else {
        this.#takeRow(flight, r, session);
        if (this.#leavesOverlap) this.#chooseOverlap(session.request);
      }
    }
  }

  #takeRow(flight: Flight, row: number, session: Session): void {
    const { request } = session;
    if (session.promptLogprobs !== null) this.#takeScores(flight, row, session);
    if (session.kind !== "generate") this.#takeStates(flight, row, session);
    else if (flight.lastLogit[row]! >= 0) this.#takeDraws(flight, row, session);
    else if (endsWithPrompt(request) && flight.step.endOf(row) === request.numTokens) this.#endPrompt(session);
  }

  /** The request takes its run, as far as it goes: what comes after its end is dropped. */
  #takeDraws(flight: Flight, row: number, session: Session): void {
    const { request } = session;
    const { numTokens, numDrafted } = request;
    const fault = this.#draw(flight, row, session, flight.firstDraw[row]!);
    if (fault !== null) {
      this.#fail(session, fault.error);
      return;
    }
    this.#giveRun(session, numTokens);
    if (request.draftsByModel && request.state !== "finished") this.#predictor?.landed(flight, row, request);
    if (numDrafted === 0) return;
    const numAccepted = request.numTokens - numTokens - 1;
    this.#recorder.countDrafts(row, request, numDrafted, numAccepted);
    this.#drafter?.observe?.(request, numDrafted, numAccepted);
    if (request.state !== "finished") this.#parts.scheduler.undraft(request);
  }

  /** A row is scheduled before its last token is known, or has guesses: where there is a match that promises much, rather those. */
  #chooseOverlap(request: Request): void {
    if (request.maxDrafts === 0 || !request.canRunAhead || request.numGenerated === 0) return;
    request.runsAhead = this.#drafter!.foresees?.(request) === false;
  }

  /** The other samples of a call begin when its prompt is computed: each draws its own first token from the same logits. */
  #fork(flight: Flight, row: number): void {
    const { scheduler, device, caches, cache } = this.#parts;
    const parent = flight.sessions[row]!;
    if (flight.lastLogit[row]! < 0 || !isForking(parent.request) || parent.request.state === "finished") return;
    for (let index = 1; index < parent.request.sampling.n; index++) {
      const child = this.#factory.fork(parent, index);
      this.#serve(child);
      const { numTokens } = child.request;
      // The first token is accepted before the fork: without a free page the child waits, and must know what it has.
      const fault = this.#draw(flight, row, child, flight.forkEntries[row]! + index - 1);
      const copy = scheduler.fork(parent.request, child.request);
      if (copy !== null && copy !== NO_COPY) {
        for (let g = 0; g < cache.numPaged; g++) device.copyPage(caches[g] as KvPool, copy.from[g]!, copy.to[g]!);
      }
      if (fault === null) this.#giveRun(child, numTokens);
      else this.#fail(child, fault.error);
    }
  }

  /** Reads the run that begins at `entry`, and appends it to the request. A grammar or a hook that throws ends its own sample and no other. */
  #draw(
    flight: Flight,
    row: number,
    { request, sampling }: Session,
    entry: number,
  ): { readonly error: unknown } | null {
    const run = this.#run;
    try {
      if (flight.rowFaults[row] !== undefined) throw flight.rowFaults[row];
      const kept = flight.readbacks[row]!;
      if (kept < 0) takeDrawn(run, flight.tokens, entry, request);
      else this.#sampler.choose(run, flight.logits.row(kept), request, sampling);
    } catch (error) {
      return { error };
    }
    request.accept(run.sampled.ids, run.first, run.count);
    return null;
  }

  /**
   * Reports the run that the request has taken behind its first `numBefore` tokens. Its tokens are looked at in order, as if each had
   * come alone; one that ends the sample is the last.
   */
  #giveRun(session: Session, numBefore: number): void {
    const { request } = session;
    const { sampled, first } = this.#run;
    let finishReason: FinishReason | null = null;
    let count = 0;
    try {
      while (finishReason === null && count < this.#run.count) {
        const isFollowed = count + 1 < this.#run.count;
        finishReason = endAfter(session, sampled.ids[first + count]!, numBefore + count + 1, isFollowed);
        count++;
      }
    } catch (error) {
      this.#fail(session, error);
      return;
    }
    request.cut(numBefore + count);
    if (!request.hasBegun) {
      request.hasBegun = true;
      request.firstTokenMs = this.#parts.clock();
    }
    this.#recorder.countGenerated(count);
    this.#addTokens(sampled, first, count, request.numTop);
    const promptLogprobs = request.numGenerated === count ? session.promptLogprobs : null;
    if (finishReason !== null) {
      const token = sampled.ids[first + count - 1]!;
      const stopToken = finishReason === "stop" && isIn(session.sampling.stopIds, token) ? token : -1;
      const isLoop = finishReason === "length" && loops(request, numBefore + count);
      this.#end(session, finishReason, { stopToken, isLoop, promptLogprobs });
    } else this.#outputs.addRow(session.handle, promptLogprobs === null ? null : { promptLogprobs });
  }

  /** Entries of what was sampled; with as many alternatives as were asked for and found, -1: without log-probabilities. */
  #addTokens(sampled: Sampled, first: number, count: number, numTop: number): void {
    const outputs = this.#outputs;
    for (let i = first; i < first + count; i++) {
      outputs.addToken(sampled.ids[i]!);
      if (numTop < 0) continue;
      outputs.addLogprob(sampled.ids[i]!, sampled.logprobs[i]!);
      for (let t = i * MAX_TOP_LOGPROBS; t < i * MAX_TOP_LOGPROBS + numTop; t++) {
        if (sampled.topIds[t]! >= 0) outputs.addLogprob(sampled.topIds[t]!, sampled.topLogprobs[t]!);
      }
    }
  }

  /** How probable the prompt's tokens were that the chunk computed. Those computed again after a preemption are known already. */
  #takeScores(
    { batch, tokens, firstLogit, endLogit }: Flight,
    row: number,
    { request, promptLogprobs }: Session,
  ): void {
    for (let i = firstLogit[row]!; i < endLogit[row]!; i++) {
      const next = batch.positions[batch.logitRows[i]!]! + 1;
      if (next >= request.promptLen) break;
      if (next === promptLogprobs!.length)
        promptLogprobs!.push(logprobsAt(tokens, i, request.sampling.promptLogprobs!));
    }
  }

  /** Hidden states of a text's chunk; after its last one, the text is a vector. */
  #takeStates(flight: Flight, row: number, session: Session): void {
    const { step } = flight;
    const end = step.endOf(row);
    poolChunk(session, flight.hidden, flight.readbacks[row]!, step.starts[row]!, end);
    if (end < session.request.numTokens) return;
    const values = session.pooled!.vector();
    const { layers } = this.#parts;
    const layer = session.kind === "embed" ? layers?.embed : session.kind === "score" ? layers?.score : null;
    this.#end(session, "stop", { vector: layer == null ? values : layer(values) });
  }

  /** The prompt is computed, and no answer was asked for: all samples of the call end here, none has a token of its own. */
  #endPrompt(session: Session): void {
    const { request, callId, promptLogprobs } = session;
    this.#end(session, "length", { promptLogprobs });
    const end = { finishReason: "length", trace: traceOf(request) } as const;
    for (let index = 1; index < request.sampling.n; index++) this.#addRowAlone(callId, index, end);
  }

  // --- ends --------------------------------------------------------------------------------------------------------

  #fail(session: Session, error: unknown): void {
    this.#end(session, "error", { error: toWire(error, "step_failed") });
  }

  /** Ends a sample and says how it fared, with the tokens that were added for it. */
  #end(session: Session, finishReason: FinishReason, note: Partial<OutputNote> = {}): void {
    this.#parts.scheduler.finish(session.request, finishReason);
    this.#close(session, finishReason, note);
  }

  #close(session: Session, finishReason: FinishReason, note: Partial<OutputNote>): void {
    const { request } = session;
    request.finishedMs = this.#parts.clock();
    session.sampling.constraint?.dispose();
    session.adapter?.release();
    this.#drafter?.end?.(request);
    this.sessions.delete(session);
    this.#recorder.countFinished(request);
    this.#outputs.addRow(session.handle, { ...note, finishReason, trace: traceOf(request) });
    this.#closeHandle(session);
  }

  /** A row of a landed flight whose request had ended before. */
  #drop(session: Session): void {
    this.#recorder.countDropped();
    this.#closeHandle(session);
  }

  /** Unless flights under way will name it in their records. */
  #closeHandle({ request, handle }: Session): void {
    if (request.numInFlight === 0) this.#outputs.close(handle);
  }

  /** All that is ever said of a sample that never ran. */
  #addRowAlone(callId: string, index: number, note: Partial<OutputNote>): void {
    const handle = this.#outputs.open(callId, index, callId, 0);
    this.#outputs.addRow(handle, note);
    this.#outputs.close(handle);
  }
}

/** Whether the token, with which the request has `numTokens`, is its last, and why; null: it goes on. */
function endAfter(
  { request, sampling }: Session,
  token: number,
  numTokens: number,
  isFollowed: boolean,
): FinishReason | null {
  const { constraint, stopIds } = sampling;
  const isStopId = isIn(stopIds, token);
  // A stop token ends the answer and is no part of it.
  if (constraint !== null && !isStopId && !constraint.accept(token, isFollowed)) {
    throw new Error(`the constraint refuses the chosen token ${token}`);
  }
  const isStop = isStopId && numTokens > request.minLength;
  if (isStop || constraint?.isDone() === true) return "stop";
  return numTokens >= request.maxLength || (request.endsLoops && loops(request, numTokens)) ? "length" : null;
}

/** Whether the answer, of so many tokens with its prompt, repeats itself more often than it may. */
function loops({ tokens, promptLen, sampling }: Request, numTokens: number): boolean {
  const { loopCount, loopMinSize, loopMaxSize } = sampling;
  return loopCount > 1 && endsInLoop(tokens.subarray(promptLen, numTokens), loopCount, loopMinSize, loopMaxSize);
}

/** In a list of a few: without the call of includes(), for each row of every step. */
function isIn(ids: Int32Array, token: number): boolean {
  for (let i = 0; i < ids.length; i++) if (ids[i] === token) return true;
  return false;
}
