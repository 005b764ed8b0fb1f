// The sampling half of a step: which positions need logits, logits block by block, a token for each row that is due one, prompt
// logprobs on the way, and the first tokens of further samples. Changes no request; the engine commits what it finds here.

import type { Batch } from "../../core/batch.js";
import type { PositionLogprobs } from "../../core/sampling.js";
import type { Device, StagedBatch } from "../../device/device.js";
import type { Model } from "../../models/model.js";
import { Sampler } from "../../sampler/sampler.js";
import type { Session, SessionFactory } from "./session.js";

/** Not a token: the row needs none in this step. */
export const NONE = -1;
/** Not a token: every token is forbidden (Sampler.chooseOnHost). */
export const STUCK = -2;

/** A further sample of a call that begins in this step. */
export interface Fork {
  readonly parent: Session;
  readonly child: Session;
  readonly token: number;
  readonly logprobs: PositionLogprobs | null;
}

export class StepSampler {
  readonly #batch: Batch;
  readonly #model: Model;
  readonly #sampler: Sampler;
  readonly #sessions: SessionFactory;
  readonly #maxLogitRows: number;
  readonly #rows: Session[] = []; // [R]
  readonly #rowOfLogit: Int32Array; // [numLogitRows] the row a logit row belongs to
  /** The row's next token, NONE or STUCK. */
  readonly tokens: Int32Array; // [R]
  readonly logprobs: (PositionLogprobs | null)[] = []; // [R]
  readonly forks: Fork[] = [];

  constructor(device: Device, model: Model, batch: Batch, sessions: SessionFactory, maxLogitRows: number) {
    this.#batch = batch;
    this.#model = model;
    this.#sessions = sessions;
    this.#maxLogitRows = maxLogitRows;
    this.#sampler = new Sampler(device, model.spec.vocabSize, maxLogitRows);
    this.#rowOfLogit = new Int32Array(batch.maxTokens);
    this.tokens = new Int32Array(batch.maxTokens);
  }

  clear(): void {
    this.forks.length = 0;
  }

  /** Appends the session's new tokens to the batch as its next row, with the logit rows it needs. */
  addRow(session: Session, start: number, queryLen: number): void {
    const batch = this.#batch;
    const row = batch.numRows;
    const firstLogit = batch.numLogitRows;
    const { request } = session;
    batch.addRow(request.tokens, start, queryLen, request.pages, logitsFrom(session));
    this.#rowOfLogit.fill(row, firstLogit, batch.numLogitRows);
    this.#rows[row] = session;
    this.tokens[row] = NONE;
    this.logprobs[row] = null;
  }

  /** After the forward. Blocks keep the memory of logits from growing with the batch. */
  run(staged: StagedBatch): void {
    const total = this.#batch.numLogitRows;
    for (let first = 0; first < total; first += this.#maxLogitRows) {
      const n = Math.min(this.#maxLogitRows, total - first);
      this.#model.computeLogits(staged, first, n);
      this.#runBlock(first, n);
    }
  }

  #runBlock(first: number, n: number): void {
    const sampler = this.#sampler;
    const { logits } = this.#model;
    let numPlain = 0;
    for (let i = 0; i < n; i++) {
      const { request, sampling } = this.#rows[this.#rowOfLogit[first + i]!]!;
      if (this.#positionOf(first + i) === request.numTokens - 1 && sampler.isPlain(request, sampling)) {
        sampler.prepareRow(i, request);
        numPlain++;
      } else sampler.skipRow(i);
    }
    const chosen = numPlain > 0 ? sampler.chooseOnDevice(logits, n) : null;
    for (let i = 0; i < n; i++) {
      const row = this.#rowOfLogit[first + i]!;
      const session = this.#rows[row]!;
      const { request } = session;
      const position = this.#positionOf(first + i);
      if (position < request.promptLen - 1) this.#scorePrompt(session, i, position);
      if (position < request.numTokens - 1) continue;
      if (sampler.isPlain(request, session.sampling)) this.tokens[row] = chosen![i]!;
      else {
        this.tokens[row] = this.#choose(session, i);
        this.logprobs[row] = sampler.lastLogprobs;
      }
      if (request.sampling.n > 1 && request.sampleIndex === 0 && request.numGenerated === 0) this.#fork(session, i);
    }
  }

  /** A grammar or a hook that throws ends its own sample and no other. */
  #choose(session: Session, blockRow: number): number {
    try {
      return this.#sampler.chooseOnHost(this.#model.logits, blockRow, session.request, session.sampling);
    } catch (error) {
      session.fault = error;
      return STUCK;
    }
  }

  #positionOf(logitRow: number): number {
    return this.#batch.positions[this.#batch.logitRows[logitRow]!]!;
  }

  #scorePrompt(session: Session, blockRow: number, position: number): void {
    const list = session.promptLogprobs;
    if (list === null || list.length !== position + 1) return; // computed before a preemption
    const { tokens, sampling } = session.request;
    list.push(this.#sampler.scoreRow(this.#model.logits, blockRow, tokens[position + 1]!, sampling.promptLogprobs!));
  }

  /** The other samples of a call begin here: each draws its own first token from the same logits. */
  #fork(parent: Session, blockRow: number): void {
    for (let index = 1; index < parent.request.sampling.n; index++) {
      const child = this.#sessions.fork(parent, index);
      const token = this.#choose(child, blockRow);
      this.forks.push({ parent, child, token, logprobs: this.#sampler.lastLogprobs });
    }
  }
}

/** First position whose logits the session needs: its last one, or all that its prompt logprobs still lack. */
function logitsFrom(session: Session): number {
  if (session.kind !== "generate") return Number.POSITIVE_INFINITY;
  const last = session.request.numTokens - 1;
  return session.promptLogprobs === null ? last : Math.min(last, session.promptLogprobs.length - 1);
}
