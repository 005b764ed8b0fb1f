// The engine itself: accept -> schedule -> write page table -> plan -> forward -> sample -> commit. Synchronous, no I/O; a
// host (host.ts) calls `step` while there is work and carries the outputs away. Knows nothing of text, threads or HTTP.

import type { AttentionPlanner } from "../attention/planner.js";
import type { CacheManager } from "../cache/cache-manager.js";
import { Batch } from "../core/batch.js";
import type { RequestId } from "../core/ids.js";
import { type FinishReason, Request } from "../core/request.js";
import type { PositionLogprobs } from "../core/sampling.js";
import type { Device, KvPool, StagedBatch } from "../device/device.js";
import type { Model } from "../models/model.js";
import type { ConstraintCompiler } from "../sampler/constraint.js";
import type { LogitsHook } from "../sampler/sampler.js";
import { Sampler, type SamplingState } from "../sampler/sampler.js";
import type { Scheduler, Step } from "../scheduler/scheduler.js";
import { type AddMessage, type RequestOutput, toWire } from "./messages.js";
import { type Session, traceOf } from "./session.js";
import { planOfRows } from "./step-plan.js";
import { StepRecorder } from "./step-recorder.js";
import type { CachePicture, EngineStats, StepPlan, StepRow } from "./types.js";

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

/** Not a token: the row needs none in this step. */
const NONE = -1;
/** Not a token: every token is forbidden (Sampler.chooseOnHost). */
const STUCK = -2;

export class EngineCore {
  readonly #parts: EngineParts;
  readonly #batch: Batch;
  readonly #staged: StagedBatch;
  readonly #plans: ReturnType<AttentionPlanner["plan"]>[] = [];
  readonly #sampler: Sampler;
  readonly #sessions = new Map<string, Session>();
  readonly #recorder: StepRecorder;
  readonly #rowOfLogit: Int32Array; // [numLogitRows] the step row a logit row belongs to
  readonly #sampled: Int32Array; // [R] the row's next token, or NONE, or STUCK
  readonly #logprobs: (PositionLogprobs | null)[] = []; // [R]
  readonly #forks: { parent: Session; child: Session; token: number; logprobs: PositionLogprobs | null }[] = [];
  #outputs: RequestOutput[] = [];
  #injectFault = false;

  constructor(parts: EngineParts) {
    this.#parts = parts;
    this.#batch = new Batch(parts.pool.spec.pageSize, parts.maxTokens);
    this.#staged = parts.device.createStagedBatch(parts.maxTokens);
    this.#sampler = new Sampler(parts.device, parts.model.spec.vocabSize, parts.maxLogitRows);
    this.#recorder = new StepRecorder(parts);
    this.#rowOfLogit = new Int32Array(parts.maxTokens);
    this.#sampled = new Int32Array(parts.maxTokens);
  }

  /** The loop's body. Returns false when nothing could run. */
  step(): boolean {
    const { scheduler, model, pool } = this.#parts;
    const step = scheduler.schedule();
    this.#reportRefused();
    if (step === null) return false;
    this.#recorder.begin();
    try {
      this.#writeBatch(step);
      this.#plan();
      model.forward(this.#staged, pool);
      this.#sample(step);
    } catch (error) {
      this.#failRows(step, error);
      return true;
    }
    this.#recorder.end(step);
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

  get recorder(): StepRecorder {
    return this.#recorder;
  }

  add(message: AddMessage, editLogits: LogitsHook | null = null): void {
    const { scheduler } = this.#parts;
    try {
      const session = this.#open(message, 0, editLogits);
      this.#sessions.set(session.request.id, session);
      scheduler.add(session.request);
    } catch (error) {
      this.#outputs.push({ ...emptyOutput(message.id, 0), finishReason: "error", error: toWire(error, "step_failed") });
    }
  }

  /** Ends one sample of a call, or all of them (-1), and reports how they fared; silent for those already over. */
  abort(callId: string, index: number): void {
    for (const session of this.#sessions.values()) {
      const { request } = session;
      if (session.callId !== callId || (index >= 0 && request.sampleIndex !== index)) continue;
      request.finishedMs = this.#parts.clock();
      this.#parts.scheduler.abort(request.id);
      this.#close(session);
      this.#outputs.push({
        ...emptyOutput(callId, request.sampleIndex),
        finishReason: "abort",
        trace: traceOf(request),
      });
    }
  }

  stats(): EngineStats {
    const { name, device, scheduler, cache, pool } = this.#parts;
    return this.#recorder.stats(name, device.info.name, scheduler, cache.stats(), pool.spec.pageSize);
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

  /** Proves that no page is lost; tests call it when idle and between steps. */
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
    this.#parts.device.close();
  }

  // --- the parts of a step -----------------------------------------------------------------------------------------

  #writeBatch(step: Step): void {
    const batch = this.#batch;
    batch.clear();
    for (let r = 0; r < step.numRows; r++) {
      const request = step.rows[r]!;
      const firstLogit = batch.numLogitRows;
      batch.addRow(request.tokens, step.starts[r]!, step.queryLens[r]!, request.pages, this.#logitsFrom(request));
      this.#rowOfLogit.fill(r, firstLogit, batch.numLogitRows);
      this.#sampled[r] = NONE;
      this.#logprobs[r] = null;
    }
  }

  /** First position whose logits the request needs: its last one, or all that its prompt logprobs still lack. */
  #logitsFrom(request: Request): number {
    const session = this.#sessions.get(request.id)!;
    if (session.kind !== "generate") return Number.POSITIVE_INFINITY;
    const last = request.numTokens - 1;
    return session.promptLogprobs === null ? last : Math.min(last, session.promptLogprobs.length - 1);
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

  /** Logits block by block, so that their memory does not grow with the batch. */
  #sample(step: Step): void {
    const { model, maxLogitRows } = this.#parts;
    const total = this.#batch.numLogitRows;
    for (let first = 0; first < total; first += maxLogitRows) {
      const n = Math.min(maxLogitRows, total - first);
      model.computeLogits(this.#staged, first, n);
      this.#sampleBlock(step, first, n);
    }
  }

  #sampleBlock(step: Step, first: number, n: number): void {
    const sampler = this.#sampler;
    const { logits } = this.#parts.model;
    let numPlain = 0;
    for (let i = 0; i < n; i++) {
      const request = step.rows[this.#rowOfLogit[first + i]!]!;
      const session = this.#sessions.get(request.id)!;
      if (this.#positionOf(first + i) === request.numTokens - 1 && sampler.isPlain(request, session.sampling)) {
        sampler.prepareRow(i, request);
        numPlain++;
      } else sampler.skipRow(i);
    }
    const chosen = numPlain > 0 ? sampler.chooseOnDevice(logits, n) : null;
    for (let i = 0; i < n; i++) {
      const row = this.#rowOfLogit[first + i]!;
      const request = step.rows[row]!;
      const session = this.#sessions.get(request.id)!;
      const position = this.#positionOf(first + i);
      if (position < request.promptLen - 1) this.#scorePrompt(session, i, position);
      if (position < request.numTokens - 1) continue;
      if (sampler.isPlain(request, session.sampling)) this.#sampled[row] = chosen![i]!;
      else {
        this.#sampled[row] = sampler.chooseOnHost(logits, i, request, session.sampling);
        this.#logprobs[row] = sampler.lastLogprobs;
      }
      if (request.sampling.n > 1 && request.sampleIndex === 0 && request.numGenerated === 0)
        this.#forkSamples(session, i);
    }
  }

  #positionOf(logitRow: number): number {
    return this.#batch.positions[this.#batch.logitRows[logitRow]!]!;
  }

  #scorePrompt(session: Session, blockRow: number, position: number): void {
    const list = session.promptLogprobs;
    if (list === null || list.length !== position + 1) return; // computed before a preemption
    const { tokens, sampling } = session.request;
    const { logits } = this.#parts.model;
    list.push(this.#sampler.scoreRow(logits, blockRow, tokens[position + 1]!, sampling.promptLogprobs!));
  }

  /** The other samples of a call begin here: each draws its own first token from the same logits. */
  #forkSamples(parent: Session, blockRow: number): void {
    const { request } = parent;
    for (let index = 1; index < request.sampling.n; index++) {
      const child = this.#openSample(parent, index);
      const token = this.#sampler.chooseOnHost(this.#parts.model.logits, blockRow, child.request, child.sampling);
      this.#forks.push({ parent, child, token, logprobs: this.#sampler.lastLogprobs });
    }
  }

  #commit(step: Step): void {
    const { cache, device, pool, scheduler } = this.#parts;
    for (let r = 0; r < step.numRows; r++) cache.publish(step.rows[r]!);
    // Forks share the parent's pages, so they come before the parent may end and give them back.
    for (const { parent, child, token, logprobs } of this.#forks) {
      child.request.appendToken(Math.max(token, 0));
      child.request.firstTokenMs = this.#parts.clock();
      this.#sessions.set(child.request.id, child);
      const copy = scheduler.fork(parent.request, child.request);
      if (copy !== null && copy.from !== copy.to) device.copyPage(pool, copy.from, copy.to);
      if (token === STUCK) this.#failRequest(child.request, new Error("the constraint leaves no token to choose"));
      else this.#emitToken(child, token, logprobs);
    }
    this.#forks.length = 0;
    for (let r = 0; r < step.numRows; r++) {
      const session = this.#sessions.get(step.rows[r]!.id);
      if (session === undefined) continue;
      if (session.kind !== "generate") this.#pool(session, step, r);
      else if (this.#sampled[r] === STUCK)
        this.#failRequest(session.request, new Error("the constraint leaves no token to choose"));
      else if (this.#sampled[r] !== NONE) {
        const { request } = session;
        request.appendToken(this.#sampled[r]!);
        if (request.firstTokenMs < 0) request.firstTokenMs = this.#parts.clock();
        this.#emitToken(session, this.#sampled[r]!, this.#logprobs[r]!);
      }
    }
  }

  /** Reports an appended token and ends the sample when it is the last one. */
  #emitToken(session: Session, token: number, logprobs: PositionLogprobs | null): void {
    const { request } = session;
    this.#recorder.countGenerated();
    const { constraint, stopIds } = session.sampling;
    let finish: FinishReason | null = null;
    let stopToken = -1;
    let error: RequestOutput["error"] = null;
    if (isIn(stopIds, token) && request.numGenerated > request.sampling.minTokens) {
      finish = "stop";
      stopToken = token;
    } else if (constraint !== null && !constraint.accept(token)) {
      finish = "error";
      error = toWire(new Error(`token ${token} breaks the constraint`), "step_failed");
    } else if (constraint?.isDone() === true) finish = "stop";
    else if (request.numGenerated >= request.sampling.maxTokens || request.numTokens >= this.#parts.maxContext)
      finish = "length";

    const promptLogprobs = request.numGenerated === 1 && request.sampleIndex === 0 ? session.promptLogprobs : null;
    if (finish !== null) this.#finish(session, finish);
    this.#outputs.push({
      ...emptyOutput(session.callId, request.sampleIndex),
      tokens: [token],
      logprobs: logprobs === null ? null : [logprobs],
      finishReason: finish,
      stopToken,
      promptLogprobs,
      trace: finish === null ? null : traceOf(request),
      error,
    });
  }

  /** Embeddings: adds up or takes the hidden states of the row; the sample ends with its prompt. */
  #pool(session: Session, step: Step, row: number): void {
    const { request } = session;
    const { model, device } = this.#parts;
    const width = model.spec.hiddenSize;
    const from = this.#batch.qoIndptr[row]!;
    const queryLen = step.queryLens[row]!;
    const isLast = request.numComputed === request.numTokens;
    const count = session.kind === "embed_mean" ? queryLen : isLast ? 1 : 0;
    if (count > 0) {
      const rows = new Float32Array(count * width);
      device.read(rows, model.hidden, from + queryLen - count, count);
      for (let i = 0; i < rows.length; i++) session.pooled![i % width]! += rows[i]!;
      session.pooledTokens += count;
    }
    if (!isLast) return;
    const vector = Float32Array.from(session.pooled!, (sum) => sum / session.pooledTokens);
    request.firstTokenMs = this.#parts.clock();
    this.#finish(session, "stop");
    this.#outputs.push({ ...emptyOutput(session.callId, 0), finishReason: "stop", vector, trace: traceOf(request) });
  }

  // --- sessions ----------------------------------------------------------------------------------------------------

  #open(message: AddMessage, sampleIndex: number, editLogits: LogitsHook | null): Session {
    const { sampling, kind } = message;
    const request = new Request({
      id: (sampleIndex === 0 ? message.id : `${message.id}#${sampleIndex}`) as RequestId,
      prompt: message.prompt,
      sampling,
      priority: message.priority,
      salt: message.salt,
      arrivalMs: message.arrivalMs,
      sampleIndex,
      readsCache: sampling.promptLogprobs === null && kind !== "embed_mean",
    });
    return {
      request,
      callId: message.id,
      kind,
      sampling: this.#samplingState(message, editLogits),
      promptLogprobs: sampling.promptLogprobs === null ? null : [null],
      pooled: kind === "generate" ? null : new Float64Array(this.#parts.model.spec.hiddenSize),
      pooledTokens: 0,
    };
  }

  #openSample(parent: Session, sampleIndex: number): Session {
    const { request, sampling, callId, kind } = parent;
    const constraint = sampling.constraintSpec;
    const message: AddMessage = {
      type: "add",
      id: callId,
      kind,
      prompt: request.tokens.slice(0, request.promptLen),
      sampling: { ...request.sampling, promptLogprobs: null },
      priority: request.priority,
      salt: request.salt,
      arrivalMs: request.arrivalMs,
      constraint,
    };
    const session = this.#open(message, sampleIndex, sampling.editLogits);
    session.request.numCached = request.numCached;
    session.request.firstScheduledMs = request.firstScheduledMs;
    return session;
  }

  #samplingState(message: AddMessage, editLogits: LogitsHook | null): SamplingState {
    const { sampling, constraint } = message;
    const { compiler, eosIds } = this.#parts;
    if (constraint !== null && compiler === null) throw new Error("structured output is not available in this engine");
    return {
      stopIds: Int32Array.from([...sampling.stopTokenIds, ...(sampling.ignoreEos ? [] : eosIds)]),
      constraint: constraint === null ? null : compiler!.compile(constraint),
      constraintSpec: constraint,
      editLogits,
    };
  }

  #finish(session: Session, reason: FinishReason): void {
    const { scheduler, clock } = this.#parts;
    session.request.finishedMs = clock();
    if (reason === "error") scheduler.fail(session.request);
    else scheduler.finish(session.request, reason);
    this.#close(session);
  }

  #close(session: Session): void {
    session.sampling.constraint?.dispose();
    this.#sessions.delete(session.request.id);
    this.#recorder.countFinished(session.request);
  }

  #failRows(step: Step, error: unknown): void {
    this.#forks.length = 0;
    for (let r = 0; r < step.numRows; r++) this.#failRequest(step.rows[r]!, error);
  }

  #failRequest(request: Request, error: unknown): void {
    const session = this.#sessions.get(request.id);
    if (session === undefined) return;
    this.#finish(session, "error");
    this.#outputs.push({
      ...emptyOutput(session.callId, request.sampleIndex),
      finishReason: "error",
      error: toWire(error, "step_failed"),
      trace: traceOf(request),
    });
  }

  /** Requests that outgrew the whole pool (checked at the border too; this is the second line). */
  #reportRefused(): void {
    for (const request of this.#parts.scheduler.takeRefused()) {
      const session = this.#sessions.get(request.id);
      if (session === undefined) continue;
      request.finishedMs = this.#parts.clock();
      this.#close(session);
      const error =
        request.finishReason === "error"
          ? toWire(new Error("it needs more pages than the pool has"), "step_failed")
          : null;
      const { finishReason } = request;
      this.#outputs.push({
        ...emptyOutput(session.callId, request.sampleIndex),
        finishReason,
        trace: traceOf(request),
        error,
      });
    }
  }
}

function isIn(ids: Int32Array, id: number): boolean {
  for (let i = 0; i < ids.length; i++) if (ids[i] === id) return true;
  return false;
}

function emptyOutput(id: string, index: number): RequestOutput {
  return {
    id,
    index,
    tokens: [],
    logprobs: null,
    finishReason: null,
    stopToken: -1,
    promptLogprobs: null,
    vector: null,
    trace: null,
    error: null,
  };
}
