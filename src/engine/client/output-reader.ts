// Reads the engine's messages (outputs.ts) row by row, without making an object of each: the reader itself is the row it stands at.

import type { PositionLogprobs, TokenLogprob } from "../../core/sampling.js";
import { NO_NOTE, type OpenedSample, type OutputNote, type StepColumns, type StepOutputs } from "../outputs.js";
import type { StepRecord, StepRow } from "../types.js";

/** What one sample got. Valid until the next one is read. */
export interface SampleOutput {
  readonly callId: string;
  /** Which of the call's samples. */
  readonly index: number;
  readonly numTokens: number;
  tokenAt(i: number): number;
  /** null: not asked for. */
  logprobsAt(i: number): PositionLogprobs | null;
  readonly note: OutputNote;
}

interface Sample<Call> {
  readonly opened: OpenedSample;
  /** null: nobody hears it, or no longer. */
  call: Call | null;
}

export class OutputReader<Call> implements SampleOutput {
  readonly #find: (callId: string) => Call | undefined;
  readonly #samples: Sample<Call>[] = []; // by handle
  #message!: StepOutputs;
  #row = 0;
  #note = 0;
  #firstToken = 0;
  /** Of the row it stands at. */
  call: Call | null = null;
  callId = "";
  index = 0;
  numTokens = 0;
  note: OutputNote = NO_NOTE;

  /** `find` names the call that hears of the samples of an id; it is asked once for each sample. */
  constructor(find: (callId: string) => Call | undefined) {
    this.#find = find;
  }

  /** Begins a message, before its first row. */
  open(message: StepOutputs): void {
    for (const opened of message.opened) {
      this.#samples[opened.handle] = { opened, call: this.#find(opened.callId) ?? null };
    }
    this.#message = message;
    this.#row = this.#note = this.#firstToken = this.numTokens = 0;
  }

  /** Goes to the next row; false: there is none. */
  next(): boolean {
    const { handles, tokenEnds, notes } = this.#message;
    const row = this.#row++;
    if (row >= handles.length) return false;
    const sample = this.#samples[handles[row]!]!;
    this.#firstToken += this.numTokens;
    this.numTokens = tokenEnds[row]! - this.#firstToken;
    this.note = notes[this.#note]?.row === row ? notes[this.#note++]! : NO_NOTE;
    this.call = sample.call;
    this.callId = sample.opened.callId;
    this.index = sample.opened.index;
    if (this.note.finishReason !== null) sample.call = null;
    return true;
  }

  tokenAt(i: number): number {
    return this.#message.tokens[this.#firstToken + i]!;
  }

  logprobsAt(i: number): PositionLogprobs | null {
    const { logprobs } = this.#message;
    if (logprobs === null) return null;
    const { firstEntries, ids, values } = logprobs;
    const token = this.#firstToken + i;
    const first = firstEntries[token]!;
    const end = firstEntries[token + 1] ?? ids.length;
    if (first === end) return null;
    const top: TokenLogprob[] = [];
    for (let e = first + 1; e < end; e++) top.push({ id: ids[e]!, logprob: values[e]! });
    return { id: ids[first]!, logprob: values[first]!, top };
  }

  /** The record of a step of this message. Its rows are described when somebody asks for them. */
  recordOf({ handles, starts, queryLens, drafted, accepted, ...facts }: StepColumns): StepRecord {
    const samples: OpenedSample[] = [];
    for (let r = 0; r < handles.length; r++) samples.push(this.#samples[handles[r]!]!.opened);
    return {
      ...facts,
      get rows(): StepRow[] {
        return samples.map(({ id, promptLen }, r) => {
          const start = starts[r]!;
          const queryLen = queryLens[r]!;
          const row = { id, start, queryLen, contextLen: start + queryLen, isPrefill: start < promptLen };
          return drafted?.[r] ? { ...row, drafted: drafted[r], accepted: accepted![r]! } : row;
        });
      },
    };
  }
}
