// What a step gives its callers, written and read. The message that crosses between the threads is one struct of arrays, and so is what the engine writes:
// a row for each sample that got something, its tokens, and log-probabilities where they were asked for. Whatever is seldom said (an end,
// an error, a vector) is a note on a row. A handle stands for a sample from the message that announces it until its end.
//
//   handles    [R]   h0    h1    h2
//   tokenEnds  [R]   1     3     3           row r has tokens [tokenEnds[r - 1], tokenEnds[r])
//   tokens     [T]   t     t t               token t has entries [firstEntries[t], firstEntries[t + 1]): its own, then the alternatives
//   notes                        { row: 2, finishReason: "abort", ... }

import type { FinishReason } from "../core/request.js";
import type { PositionLogprobs, TokenLogprob } from "../core/sampling.js";
import type { WireError } from "./messages.js";
import type { RequestTrace, StepRecord, StepRow } from "./types.js";

export interface StepOutputs {
  readonly type: "outputs";
  /** Samples that are new since the last message. A handle may have been another's, which has ended. */
  readonly opened: readonly OpenedSample[];
  readonly handles: Int32Array; // [R]
  readonly tokenEnds: Int32Array; // [R]
  readonly tokens: Int32Array; // [T]
  /** null: no token of the message has any. */
  readonly logprobs: LogprobColumns | null;
  /** In the order of their rows, at most one for each. */
  readonly notes: readonly RowNote[];
  readonly step: StepColumns | null;
}

/** What a handle stands for. */
export interface OpenedSample {
  readonly handle: number;
  readonly callId: string;
  /** Which of the call's samples. */
  readonly index: number;
  /** Of its request: its name in records of steps. */
  readonly id: string;
  readonly promptLen: number;
}

export interface LogprobColumns {
  readonly firstEntries: Int32Array; // [T]
  readonly ids: Int32Array; // [E]
  readonly values: Float32Array; // [E]
}

/** What is seldom said of a sample. */
export interface OutputNote {
  readonly finishReason: FinishReason | null;
  /** The id of the stop token that ended it; -1 for none. */
  readonly stopToken: number;
  /** It was ended because it repeated itself. */
  readonly isLoop: boolean;
  readonly promptLogprobs: readonly (PositionLogprobs | null)[] | null;
  readonly vector: Float32Array | null;
  readonly trace: RequestTrace | null;
  readonly error: WireError | null;
}

export interface RowNote extends OutputNote {
  readonly row: number;
}

export const NO_NOTE: OutputNote = {
  finishReason: null,
  stopToken: -1,
  isLoop: false,
  promptLogprobs: null,
  vector: null,
  trace: null,
  error: null,
};

/** The record of a step, its rows as columns. */
export interface StepColumns extends Omit<StepRecord, "rows"> {
  readonly handles: Int32Array; // [rows]
  readonly starts: Int32Array; // [rows]
  readonly queryLens: Int32Array; // [rows]
  /** Guesses of each row, and those that became tokens; null: no row tried any. */
  readonly drafted: Int32Array | null; // [rows]
  readonly accepted: Int32Array | null; // [rows]
}

/** Gathers what the next message says. */
export class OutputTable {
  readonly #freeHandles: number[] = [];
  /** Given back with the next message: its rows still mean the old samples. */
  readonly #closedHandles: number[] = [];
  #numHandles = 0;
  #opened: OpenedSample[] = [];
  readonly #handles = new Column(new Int32Array(64));
  readonly #tokenEnds = new Column(new Int32Array(64));
  readonly #tokens = new Column(new Int32Array(64));
  readonly #firstEntries = new Column(new Int32Array(64));
  readonly #entryIds = new Column(new Int32Array(64));
  readonly #entryLogprobs = new Column(new Float32Array(64));
  #notes: RowNote[] = [];

  /** A handle for a sample, announced in the next message. */
  open(callId: string, index: number, id: string, promptLen: number): number {
    const handle = this.#freeHandles.pop() ?? this.#numHandles++;
    this.#opened.push({ handle, callId, index, id, promptLen });
    return handle;
  }

  /** Nothing more is said of the sample, neither in rows nor in records of steps. */
  close(handle: number): void {
    this.#closedHandles.push(handle);
  }

  /** A token of the row that comes next. */
  addToken(id: number): void {
    this.#tokens.push(id);
    this.#firstEntries.push(this.#entryIds.count);
  }

  /** Of the last token: its own log-probability first, then those of alternatives. */
  addLogprob(id: number, logprob: number): void {
    this.#entryIds.push(id);
    this.#entryLogprobs.push(logprob);
  }

  /** A row with the tokens added since the last one. */
  addRow(handle: number, note: Partial<OutputNote> | null = null): void {
    if (note !== null) this.#notes.push({ ...NO_NOTE, ...note, row: this.#handles.count });
    this.#handles.push(handle);
    this.#tokenEnds.push(this.#tokens.count);
  }

  /** The message, with the record of a step if there is one; null: there is nothing to say. */
  take(step: StepColumns | null): StepOutputs | null {
    while (this.#closedHandles.length > 0) this.#freeHandles.push(this.#closedHandles.pop()!);
    if (this.#handles.count === 0 && step === null) return null;
    const opened = this.#opened;
    const notes = this.#notes;
    this.#opened = [];
    this.#notes = [];
    const numRows = this.#handles.count;
    const numTokens = this.#tokens.count;
    const numEntries = this.#entryIds.count;
    const block = new Block(2 * numRows + numTokens + (numEntries === 0 ? 0 : numTokens + 2 * numEntries));
    const handles = block.take(this.#handles);
    const tokenEnds = block.take(this.#tokenEnds);
    const tokens = block.take(this.#tokens);
    const logprobs =
      numEntries === 0
        ? null
        : {
            firstEntries: block.take(this.#firstEntries),
            ids: block.take(this.#entryIds),
            values: block.take(this.#entryLogprobs),
          };
    this.#firstEntries.count = 0;
    return { type: "outputs", opened, handles, tokenEnds, tokens, logprobs, notes, step };
  }
}

/** A column that grows. */
export class Column<Values extends Int32Array | Float32Array> {
  count = 0;
  values: Values;

  constructor(values: Values) {
    this.values = values;
  }

  push(value: number): void {
    if (this.count === this.values.length) this.#grow();
    this.values[this.count++] = value;
  }

  #grow(): void {
    const grown = new (this.values.constructor as new (length: number) => Values)(2 * this.values.length);
    grown.set(this.values);
    this.values = grown;
  }
}

/** The columns of a message in one buffer: each buffer is allocated, cloned and freed by itself, and a step has few numbers. */
export class Block {
  readonly #buffer: ArrayBuffer;
  #at = 0; // in words

  constructor(numWords: number) {
    this.#buffer = new ArrayBuffer(4 * numWords);
  }

  /** The column's values, as part of the block; it is empty then. */
  take<Values extends Int32Array | Float32Array>(column: Column<Values>): Values {
    const taken = this.copy(column.values, column.count);
    column.count = 0;
    return taken;
  }

  /** The first `count` values, as part of the block. */
  copy<Values extends Int32Array | Float32Array>(values: Values, count: number): Values {
    const Part = values.constructor as new (buffer: ArrayBuffer, at: number, length: number) => Values;
    const part = new Part(this.#buffer, 4 * this.#at, count);
    for (let i = 0; i < count; i++) part[i] = values[i]!;
    this.#at += count;
    return part;
  }
}

// --- reading: row by row, without making an object of each ---------------------------------------------------------

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

/** The reader itself is the row it stands at. */
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
