// The engine itself: accept -> schedule -> write page table -> plan -> forward -> sample -> commit. Synchronous, no I/O; a
// driver (driver.ts) calls `step` while there is work and carries the outputs away. Knows nothing of text, threads or HTTP.

import type { AttentionPlanner } from "../../attention/planner.js";
import type { CacheManager } from "../../cache/cache-manager.js";
import type { AttentionPlan } from "../../core/attention-plan.js";
import { Batch } from "../../core/batch.js";
import type { FinishReason, Request } from "../../core/request.js";
import type { PositionLogprobs } from "../../core/sampling.js";
import type { Device, KvPool, StagedBatch } from "../../device/device.js";
import type { ConstraintCompiler } from "../../grammar/constraint.js";
import type { Model } from "../../models/model.js";
import type { LogitsHook } from "../../sampler/sampler.js";
import type { Scheduler, Step } from "../../scheduler/scheduler.js";
import { type AddMessage, type RequestOutput, toWire } from "../messages.js";
import type { CachePicture, EngineStats, StepPlan, StepRow } from "../types.js";
import { poolChunk, pooledVector } from "./pooling.js";
import { type Session, SessionFactory, traceOf } from "./session.js";
import { planOfRows } from "./step-plan.js";
import { StepRecorder } from "./step-recorder.js";
import { NONE, STUCK, StepSampler } from "./step-sampler.js";

/** Everything a core is made of; load.ts builds it. */
export interface EngineParts {
  readonly name: string;
  readonly device: Device;
  readonly model: Model;
  readonly pool: KvPool;
  readonly cache: CacheManager;
  readonly scheduler: Scheduler;
  /** One per distinct window of the model, in its order. */
  readonly planners: readonly AttentionPlanner[];
  readonly maxTokens: number;
  readonly maxLogitRows: number;
  readonly maxContext: number;
  readonly eosIds: readonly number[];
  readonly compiler: ConstraintCompiler | null;
  readonly clock: () => number;
}

export class EngineCore {
  readonly recorder: StepRecorder;
  readonly #parts: EngineParts;
  readonly #batch: Batch;
  readonly #staged: StagedBatch;
  readonly #plans: AttentionPlan[] = [];
  readonly #sampler: StepSampler;
  readonly #factory: SessionFactory;
  readonly #sessions = new Map<string, Session>();
  #outputs: RequestOutput[] = [];
  #injectFault = false;

  constructor(parts: EngineParts) {
    const { device, model, maxTokens, maxLogitRows } = parts;
    this.#parts = parts;
    this.#batch = new Batch(parts.pool.spec.pageSize, maxTokens);
    this.#staged = device.createStagedBatch(maxTokens);
    this.#factory = new SessionFactory(parts.eosIds, parts.compiler, model.spec.hiddenSize);
    this.#sampler = new StepSampler(device, model, this.#batch, this.#factory, maxLogitRows);
    this.recorder = new StepRecorder(parts);
  }

  /** The loop's body. Returns false when nothing could run. */
  step(): boolean {
    const { scheduler, model, pool } = this.#parts;
    const step = scheduler.schedule();
    this.#reportRefused();
    if (step === null) return false;
    this.recorder.begin();
    try {
      this.#writeBatch(step);
      this.#plan();
      model.forward(this.#staged, pool);
      this.#sampler.run(this.#staged);
    } catch (error) {
      for (let r = 0; r < step.numRows; r++) this.#fail(step.rows[r]!, error);
      return true;
    }
    this.recorder.end(step);
    this.#commit(step);
    return true;
  }

  get hasWork(): boolean {
    return this.#sessions.size > 0;
  }

  /** Outputs since the last call. */
  takeOutputs(): readonly RequestOutput[] {
    const outputs = this.#outputs;
    if (outputs.length > 0) this.#outputs = [];
    return outputs;
  }

  add(message: AddMessage, editLogits: LogitsHook | null = null): void {
    try {
      const session = this.#factory.open(message, editLogits);
      this.#sessions.set(session.request.id, session);
      this.#parts.scheduler.add(session.request);
    } catch (error) {
      this.#emit(message.id, 0, { finishReason: "error", error: toWire(error, "step_failed") });
    }
  }

  /** Ends one sample of a call, or all of them (-1), and reports how they fared; silent for those already over. */
  abort(callId: string, index: number): void {
    for (const session of this.#sessions.values()) {
      const { request } = session;
      if (session.callId !== callId || (index >= 0 && request.sampleIndex !== index)) continue;
      this.#parts.scheduler.abort(request.id);
      this.#close(session);
      this.#emit(callId, request.sampleIndex, { finishReason: "abort", trace: traceOf(request) });
    }
  }

  stats(): EngineStats {
    const { name, device, pool } = this.#parts;
    return this.recorder.stats(name, device.info.name, pool.spec.pageSize);
  }

  cacheSnapshot(): CachePicture {
    const requests = [...this.#sessions.values()].map(({ request }) => ({
      id: request.id,
      pages: Array.from(request.pages.subarray(0, request.numPages)),
    }));
    return { ...this.#parts.cache.snapshot(), requests };
  }

  /** The attention plans of a step with these rows. */
  planOf(rows: readonly StepRow[]): StepPlan[] {
    return planOfRows(rows, this.#parts.planners, this.#parts.pool.spec.pageSize);
  }

  /** Proves that no page is lost; tests call it between steps. */
  checkIntegrity(): void {
    this.#parts.cache.checkIntegrity([...this.#sessions.values()].map((session) => session.request));
  }

  /** The next step fails as if the device had: proves that a failed step harms only its rows. */
  injectFault(): void {
    this.#injectFault = true;
  }

  close(): void {
    for (const session of this.#sessions.values()) session.sampling.constraint?.dispose();
    this.#sessions.clear();
    this.#parts.compiler?.close();
    this.#parts.device.close();
  }

  // --- the parts of a step -----------------------------------------------------------------------------------------

  #writeBatch(step: Step): void {
    this.#batch.clear();
    this.#sampler.clear();
    for (let r = 0; r < step.numRows; r++) {
      this.#sampler.addRow(this.#sessions.get(step.rows[r]!.id)!, step.starts[r]!, step.queryLens[r]!);
    }
  }

  #plan(): void {
    const { planners, device } = this.#parts;
    for (let i = 0; i < planners.length; i++) this.#plans[i] = planners[i]!.plan(this.#batch);
    device.stage(this.#staged, this.#batch, this.#plans);
    if (this.#injectFault) {
      this.#injectFault = false;
      throw new Error("injected fault");
    }
  }

  #commit(step: Step): void {
    const { cache } = this.#parts;
    const { tokens, logprobs } = this.#sampler;
    for (let r = 0; r < step.numRows; r++) cache.publish(step.rows[r]!);
    // Forks share the parent's pages, so they come before the parent may end and give them back.
    this.#commitForks();
    for (let r = 0; r < step.numRows; r++) {
      const session = this.#sessions.get(step.rows[r]!.id)!;
      if (session.kind !== "generate") this.#commitChunk(session, step, r);
      else if (tokens[r] !== NONE) this.#commitToken(session, tokens[r]!, logprobs[r]!);
    }
  }

  #commitForks(): void {
    const { scheduler, device, pool } = this.#parts;
    for (const { parent, child, token, logprobs } of this.#sampler.forks) {
      // The first token is appended before the fork: without a free page the child waits, and must know what it has.
      if (token !== STUCK) child.request.appendToken(token);
      this.#sessions.set(child.request.id, child);
      const copy = scheduler.fork(parent.request, child.request);
      if (copy !== null && copy.from !== copy.to) device.copyPage(pool, copy.from, copy.to);
      this.#reportToken(child, token, logprobs);
    }
  }

  #commitToken(session: Session, token: number, logprobs: PositionLogprobs | null): void {
    if (token !== STUCK) session.request.appendToken(token);
    this.#reportToken(session, token, logprobs);
  }

  /** Reports an appended token and ends the sample when it is the last one. */
  #reportToken(session: Session, token: number, logprobs: PositionLogprobs | null): void {
    const { request } = session;
    if (token === STUCK || !this.#accept(session, token)) {
      this.#fail(request, session.fault ?? new Error("the constraint leaves no token to choose"));
      return;
    }
    if (request.firstTokenMs < 0) request.firstTokenMs = this.#parts.clock();
    this.recorder.countGenerated();
    const { constraint, stopIds } = session.sampling;
    let finishReason: FinishReason | null = null;
    let stopToken = -1;
    if (stopIds.includes(token) && request.numGenerated > request.sampling.minTokens) {
      finishReason = "stop";
      stopToken = token;
    } else if (constraint?.isDone() === true) finishReason = "stop";
    else if (this.#isFull(request)) finishReason = "length";

    const promptLogprobs = request.numGenerated === 1 ? session.promptLogprobs : null;
    if (finishReason !== null) this.#finish(session, finishReason);
    this.#emit(session.callId, request.sampleIndex, {
      tokens: [token],
      logprobs: logprobs === null ? null : [logprobs],
      finishReason,
      stopToken,
      promptLogprobs,
      trace: finishReason === null ? null : traceOf(request),
    });
  }

  /** Advances the sample's constraint, if it has one. A stop token ends the answer and is no part of it. */
  #accept(session: Session, token: number): boolean {
    const { constraint, stopIds } = session.sampling;
    if (constraint === null || stopIds.includes(token)) return true;
    try {
      return constraint.accept(token);
    } catch (error) {
      session.fault = error;
      return false;
    }
  }

  #isFull(request: Request): boolean {
    return request.numGenerated >= request.sampling.maxTokens || request.numTokens >= this.#parts.maxContext;
  }

  /** An embedding takes in its chunk, and ends with its prompt. */
  #commitChunk(session: Session, step: Step, row: number): void {
    const { request } = session;
    const { device, model, clock } = this.#parts;
    poolChunk(session, device, model, this.#batch.qoIndptr[row]!, step.starts[row]!, step.queryLens[row]!);
    if (request.numComputed < request.numTokens) return;
    request.firstTokenMs = clock();
    this.#finish(session, "stop");
    this.#emit(session.callId, 0, { finishReason: "stop", vector: pooledVector(session), trace: traceOf(request) });
  }

  // --- the ends of sessions ----------------------------------------------------------------------------------------

  #finish(session: Session, reason: FinishReason): void {
    const { scheduler } = this.#parts;
    if (reason === "error") scheduler.fail(session.request);
    else scheduler.finish(session.request, reason);
    this.#close(session);
  }

  #close(session: Session): void {
    session.request.finishedMs = this.#parts.clock();
    session.sampling.constraint?.dispose();
    this.#sessions.delete(session.request.id);
    this.recorder.countFinished(session.request);
  }

  #fail(request: Request, error: unknown): void {
    const session = this.#sessions.get(request.id);
    if (session === undefined) return;
    this.#finish(session, "error");
    const wire = toWire(error, "step_failed");
    this.#emit(session.callId, request.sampleIndex, { finishReason: "error", error: wire, trace: traceOf(request) });
  }

  /** Requests that outgrew the whole pool (checked at the border too; this is the second line). */
  #reportRefused(): void {
    for (const request of this.#parts.scheduler.takeRefused()) {
      const session = this.#sessions.get(request.id);
      if (session === undefined) continue;
      this.#close(session);
      const { finishReason } = request;
      const error =
        finishReason === "error" ? toWire(new Error("it needs more pages than the pool has"), "step_failed") : null;
      this.#emit(session.callId, request.sampleIndex, { finishReason, trace: traceOf(request), error });
    }
  }

  #emit(id: string, index: number, output: Partial<RequestOutput>): void {
    this.#outputs.push({ ...NOTHING, ...output, id, index });
  }
}

const NOTHING: Omit<RequestOutput, "id" | "index"> = {
  tokens: [],
  logprobs: null,
  finishReason: null,
  stopToken: -1,
  promptLogprobs: null,
  vector: null,
  trace: null,
  error: null,
};
