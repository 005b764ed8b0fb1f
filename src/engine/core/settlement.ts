// Who is being served, and what each gets: outcomes become tokens of a request, outputs for its caller, and sooner or later its end.

import type { HeldAdapter } from "../../adapters/adapter-pool.js";
import type { Outcome, Run, Scores } from "../../core/outcome.js";
import type { FinishReason, Request } from "../../core/request.js";
import type { Sampled } from "../../core/sample-row.js";
import { MAX_TOP_LOGPROBS } from "../../core/sampling-rows.js";
import type { Drafter } from "../../drafter/drafter.js";
import type { LogitsHook } from "../../sampler/sampler.js";
import type { Scheduler } from "../../scheduler/scheduler.js";
import { type AddMessage, toWire } from "../messages.js";
import type { OutputNote, OutputTable } from "../outputs.js";
import { type Session, type SessionFactory, traceOf } from "./session.js";
import type { StepRecorder } from "./step-recorder.js";

interface SettlementParts {
  readonly scheduler: Scheduler;
  readonly factory: SessionFactory;
  readonly recorder: StepRecorder;
  readonly outputs: OutputTable;
  readonly clock: () => number;
  readonly drafter: Drafter | null;
}

export class Settlement {
  readonly sessions = new Map<string, Session>(); // by request id
  readonly #parts: SettlementParts;

  constructor(parts: SettlementParts) {
    this.#parts = parts;
  }

  open(message: AddMessage, editLogits: LogitsHook | null, adapter: HeldAdapter | null): void {
    const { callId, prompt, resumed } = message;
    try {
      const session = this.#parts.factory.open(message, editLogits, adapter);
      session.request.acceptedMs = this.#parts.clock();
      this.#parts.scheduler.add(session.request);
      session.handle = this.#parts.outputs.open(callId, resumed?.index ?? 0, callId, prompt.length);
      this.sessions.set(session.request.id, session);
    } catch (error) {
      adapter?.release();
      this.failCall(callId, error);
    }
  }

  /** A call that could not be opened. */
  failCall(callId: string, error: unknown): void {
    this.#emitAlone(callId, 0, { finishReason: "error", error: toWire(error, "step_failed") });
  }

  /** Ends one sample of a call, or all of them (-1), and reports how they fared; silent for those already over. */
  abort(callId: string, index: number): void {
    for (const session of this.sessions.values()) {
      const { request } = session;
      if (session.callId !== callId || (index >= 0 && request.sampleIndex !== index)) continue;
      this.#finish(session, "abort");
      this.#parts.outputs.addRow(session.handle, { finishReason: "abort", trace: traceOf(request) });
    }
  }

  abortAll(): void {
    for (const { callId } of this.sessions.values()) this.abort(callId, -1);
  }

  /** The one way for a row to end its part of a flight. */
  settle(session: Session, outcome: Outcome): void {
    switch (outcome.kind) {
      case "run":
        this.#settleRun(session, outcome);
        break;
      case "vector":
        this.#settleVector(session, outcome.values);
        break;
      case "scores":
        this.#settleScores(session, outcome);
        break;
      case "promptEnd":
        this.#settlePrompt(session);
        break;
      case "fault":
        this.fail(session, outcome.error);
        break;
    }
  }

  /** The request takes its run, as far as it goes: what comes after its end is dropped. */
  #settleRun(session: Session, run: Run): void {
    const { request } = session;
    const { numTokens, numDrafted } = request;
    request.accept(run.sampled.ids, run.first, run.count);
    this.settleAccepted(session, run, numTokens);
    if (numDrafted === 0) return;
    const numAccepted = request.numTokens - numTokens - 1;
    this.#parts.recorder.countDrafts(request, numDrafted, numAccepted);
    this.#parts.drafter?.observe?.(request, numDrafted, numAccepted);
    if (request.state !== "finished") this.#parts.scheduler.undraft(request);
  }

  /**
   * Reports a run that the request has taken behind its first `numBefore` tokens. Its tokens are looked at in order, as if each had come
   * alone; one that ends the sample is the last.
   */
  settleAccepted(session: Session, run: Run, numBefore: number): void {
    const { request } = session;
    let finishReason: FinishReason | null = null;
    let count = 0;
    try {
      while (finishReason === null && count < run.count) {
        finishReason = this.#endAfter(session, run.sampled.ids[run.first + count]!, numBefore + count + 1);
        count++;
      }
    } catch (error) {
      this.fail(session, error); // of the first token: a constrained row has no drafts
      return;
    }
    request.cut(numBefore + count);
    if (request.firstTokenMs < 0) request.firstTokenMs = this.#parts.clock();
    this.#parts.recorder.countGenerated(count);
    this.#emitRun(session, run, count, finishReason);
  }

  /** Whether the token, with which the request has `numTokens`, is its last, and why; null: it goes on. */
  #endAfter({ request, sampling }: Session, token: number, numTokens: number): FinishReason | null {
    const { constraint, stopIds } = sampling;
    const isStopId = isIn(stopIds, token);
    // A stop token ends the answer and is no part of it.
    if (constraint !== null && !isStopId && !constraint.accept(token)) {
      throw new Error(`the constraint refuses the chosen token ${token}`);
    }
    const isStop = isStopId && numTokens - request.promptLen > request.sampling.minTokens;
    if (isStop || constraint?.isDone() === true) return "stop";
    return numTokens >= request.maxLength ? "length" : null;
  }

  #emitRun(session: Session, { sampled, first }: Run, count: number, finishReason: FinishReason | null): void {
    const { outputs } = this.#parts;
    const { request } = session;
    const { logprobs } = request.sampling;
    for (let i = first; i < first + count; i++) {
      outputs.addToken(sampled.ids[i]!);
      if (logprobs !== null) addLogprobs(outputs, sampled, i, logprobs);
    }
    const promptLogprobs = request.numGenerated === count ? session.promptLogprobs : null;
    if (finishReason !== null) {
      const token = sampled.ids[first + count - 1]!;
      const stopToken = finishReason === "stop" && isIn(session.sampling.stopIds, token) ? token : -1;
      this.#finish(session, finishReason);
      outputs.addRow(session.handle, { finishReason, stopToken, promptLogprobs, trace: traceOf(request) });
    } else outputs.addRow(session.handle, promptLogprobs === null ? null : { promptLogprobs });
  }

  /** Ends the session with an error. */
  fail(session: Session, error: unknown): void {
    const { request, handle } = session;
    this.#finish(session, "error");
    const wire = toWire(error, "step_failed");
    this.#parts.outputs.addRow(handle, { finishReason: "error", error: wire, trace: traceOf(request) });
  }

  /** Reports a request that the scheduler has ended: it outgrew the whole pool (checked at the border too; this is the second line). */
  refuse(request: Request): void {
    const session = this.sessions.get(request.id);
    if (session === undefined) return;
    this.#close(session);
    const { finishReason } = request;
    const error =
      finishReason === "error" ? toWire(new Error("it needs more pages than the pool has"), "step_failed") : null;
    this.#parts.outputs.addRow(session.handle, { finishReason, trace: traceOf(request), error });
  }

  dispose(): void {
    for (const session of this.sessions.values()) session.sampling.constraint?.dispose();
    this.sessions.clear();
  }

  #settleVector(session: Session, values: Float32Array): void {
    this.#finish(session, "stop");
    const trace = traceOf(session.request);
    this.#parts.outputs.addRow(session.handle, { finishReason: "stop", vector: values, trace });
  }

  /** All samples of the call end here: none has a token that would tell them apart. */
  #settlePrompt(session: Session): void {
    const { request, callId, handle, promptLogprobs } = session;
    this.#finish(session, "length");
    const end = { finishReason: "length", trace: traceOf(request) } as const;
    this.#parts.outputs.addRow(handle, { ...end, promptLogprobs });
    for (let index = 1; index < request.sampling.n; index++) this.#emitAlone(callId, index, end);
  }

  /** Entry i of the list is about token i. Those computed again after a preemption are there already. */
  #settleScores(session: Session, { first, entries }: Scores): void {
    const list = session.promptLogprobs!;
    for (let i = list.length - 1 - first; i < entries.length; i++) list.push(entries[i]!);
  }

  #finish(session: Session, reason: FinishReason): void {
    this.#parts.scheduler.finish(session.request, reason);
    this.#close(session);
  }

  #close(session: Session): void {
    session.request.finishedMs = this.#parts.clock();
    session.sampling.constraint?.dispose();
    session.adapter?.release();
    this.#parts.drafter?.end?.(session.request);
    this.sessions.delete(session.request.id);
    this.#parts.recorder.countFinished(session.request);
    this.#closeHandle(session);
  }

  /** All that is ever said of a sample that never ran. */
  #emitAlone(callId: string, index: number, note: Partial<OutputNote>): void {
    const { outputs } = this.#parts;
    const handle = outputs.open(callId, index, callId, 0);
    outputs.addRow(handle, note);
    outputs.close(handle);
  }

  /** A row of a landed flight whose request had ended before. */
  drop(session: Session): void {
    this.#parts.recorder.countDropped();
    this.#closeHandle(session);
  }

  /** Flights in the air name it in their records. */
  #closeHandle({ request, handle }: Session): void {
    if (request.numInFlight === 0) this.#parts.outputs.close(handle);
  }
}

/** Of entry `i`, with as many alternatives as were asked for and found. */
function addLogprobs(outputs: OutputTable, sampled: Sampled, i: number, numTop: number): void {
  outputs.addLogprob(sampled.ids[i]!, sampled.logprobs[i]!);
  for (let t = i * MAX_TOP_LOGPROBS; t < i * MAX_TOP_LOGPROBS + numTop; t++) {
    if (sampled.topIds[t]! >= 0) outputs.addLogprob(sampled.topIds[t]!, sampled.topLogprobs[t]!);
  }
}

/** In a list of a few: without the call of includes(), for each row of every step. */
function isIn(ids: Int32Array, token: number): boolean {
  for (let i = 0; i < ids.length; i++) if (ids[i] === token) return true;
  return false;
}
