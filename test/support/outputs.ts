// What an engine gives, as objects: for tests that look at whole outputs, and for those that say what an engine would.

import type { PositionLogprobs } from "../../src/core/sampling.js";
import type { EngineCore } from "../../src/engine/core/engine-core.js";
import {
  NO_NOTE,
  type OutputNote,
  OutputReader,
  OutputTable,
  type SampleOutput,
  type StepColumns,
  type StepOutputs,
} from "../../src/engine/outputs.js";

export interface RequestOutput extends OutputNote {
  readonly callId: string;
  readonly index: number;
  readonly tokens: readonly number[];
  readonly logprobs: readonly PositionLogprobs[] | null;
}

/** An output that says nothing yet. */
export const EMPTY_OUTPUT: RequestOutput = { ...NO_NOTE, callId: "", index: 0, tokens: [], logprobs: null };

/** Reads a thread's messages one after the other. */
export class OutputObjects {
  readonly #rows = new OutputReader<string>((callId) => callId);

  of(message: StepOutputs | null): RequestOutput[] {
    if (message === null) return [];
    const outputs: RequestOutput[] = [];
    for (this.#rows.open(message); this.#rows.next(); ) outputs.push(objectOf(this.#rows));
    return outputs;
  }
}

/** A copy that stays. */
export function objectOf(output: SampleOutput): RequestOutput {
  const { callId, index, numTokens, note } = output;
  const { finishReason, stopToken, isLoop, promptLogprobs, vector, trace, error } = note;
  const tokens = Array.from({ length: numTokens }, (_, i) => output.tokenAt(i));
  const logprobs = tokens.flatMap((_, i) => output.logprobsAt(i) ?? []);
  const said = { callId, index, tokens, logprobs: logprobs.length === 0 ? null : logprobs };
  return { ...said, finishReason, stopToken, isLoop, promptLogprobs, vector, trace, error };
}

const READERS = new WeakMap<EngineCore, OutputObjects>();

/** What came out of the core since the last call. */
export function outputsOf(core: EngineCore): RequestOutput[] {
  const reader = READERS.get(core) ?? new OutputObjects();
  READERS.set(core, reader);
  return reader.of(core.takeOutputs());
}

export interface WholeAnswer {
  readonly tokens: number[];
  readonly logprobs: PositionLogprobs[];
}

/** Steps until all have ended: whole answers by "call#sample". */
export async function runToEnd(core: EngineCore): Promise<Map<string, WholeAnswer>> {
  const answers = new Map<string, WholeAnswer>();
  while (core.hasWork) {
    await core.stepAsync();
    core.checkIntegrity();
    for (const { callId, index, tokens, logprobs, error } of outputsOf(core)) {
      if (error !== null) throw error;
      const key = `${callId}#${index}`;
      const answer = answers.get(key) ?? { tokens: [], logprobs: [] };
      answer.tokens.push(...tokens);
      answer.logprobs.push(...(logprobs ?? []));
      answers.set(key, answer);
    }
  }
  return answers;
}

/** As a reader of calls gets it. */
export function sampleOutput(output: Partial<RequestOutput>): SampleOutput {
  const rows = new OutputReader<string>((callId) => callId);
  rows.open(new OutputWriter().message([output]));
  rows.next();
  return rows;
}

/** Says what an engine's thread would: a sample of a call has a handle until it ends. */
export class OutputWriter {
  readonly #table = new OutputTable();
  readonly #handles = new Map<string, number>();

  message(outputs: readonly Partial<RequestOutput>[], step: StepColumns | null = null): StepOutputs {
    for (const output of outputs) this.#add({ ...EMPTY_OUTPUT, ...output });
    return this.#table.take(step) ?? { ...new OutputTable().take({} as StepColumns)!, step: null };
  }

  #add({ callId, index, tokens, logprobs, ...note }: RequestOutput): void {
    const key = `${callId}#${index}`;
    const handle = this.#handles.get(key) ?? this.#table.open(callId, index, callId, 0);
    this.#handles.set(key, handle);
    for (const [i, token] of tokens.entries()) {
      this.#table.addToken(token);
      const own = logprobs?.[i];
      if (own === undefined) continue;
      for (const { id, logprob } of [own, ...own.top]) this.#table.addLogprob(id, logprob);
    }
    const isPlain = Object.entries(NO_NOTE).every(([field, value]) => note[field as keyof OutputNote] === value);
    this.#table.addRow(handle, isPlain ? null : note);
    if (note.finishReason === null) return;
    this.#table.close(handle);
    this.#handles.delete(key);
  }
}
