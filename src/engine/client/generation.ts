// One call's outputs on the caller's side: tokens become text, text becomes chunks. Chunks that nobody has taken yet are joined,
// so a slow reader costs the memory of its answer and no more.

import { errorFor, type PagodaError } from "../../core/errors.js";
import type { PositionLogprobs } from "../../core/sampling.js";
import type { StreamDetokenizer } from "../../tokenizer/stream-detokenizer.js";
import type { SampleOutput } from "../outputs.js";
import type { GenerateResult, Generation, OutputChunk, RequestTrace, SampleResult } from "../types.js";
import type { CallChannel, CallReader } from "./call-reader.js";
import { LiveAnswer } from "./live-answer.js";

interface Sample {
  readonly detokenizer: StreamDetokenizer;
  text: string;
  readonly tokenIds: number[];
  readonly logprobs: PositionLogprobs[] | null;
  finishReason: SampleResult["finishReason"] | null;
  stopReason: string | number | null;
  trace: RequestTrace | null;
  /** A stop string was found: the sample ends when the engine has confirmed that it stopped. */
  stopString: string | null;
  /** Not yet taken by the reader. */
  pending: { text: string; guessed: [number, number][]; tokenIds: number[]; logprobs: PositionLogprobs[] } | null;
  isFinalTaken: boolean;
}

export interface GenerationInit extends CallChannel {
  readonly id: string;
  readonly n: number;
  readonly wantsLogprobs: boolean;
  readonly makeDetokenizer: () => StreamDetokenizer;
}

export class TextGeneration extends LiveAnswer<OutputChunk, GenerateResult> implements Generation, CallReader {
  readonly id: string;
  readonly #init: GenerationInit;
  readonly #samples: Sample[];
  #promptLogprobs: readonly (PositionLogprobs | null)[] | null = null;
  /** The reader has them. */
  #arePromptLogprobsTaken = false;
  #error: PagodaError | null = null;
  #isOver = false;
  hasBegun = false;
  #wake: (() => void) | null = null;
  readonly #done: Promise<void>;
  #resolveDone!: () => void;

  constructor(init: GenerationInit) {
    super();
    this.id = init.id;
    this.#init = init;
    this.#samples = Array.from({ length: init.n }, () => ({
      detokenizer: init.makeDetokenizer(),
      text: "",
      tokenIds: [],
      logprobs: init.wantsLogprobs ? [] : null,
      finishReason: null,
      stopReason: null,
      trace: null,
      stopString: null,
      pending: null,
      isFinalTaken: false,
    }));
    this.#done = new Promise((resolve) => {
      this.#resolveDone = resolve;
    });
  }

  /** Takes what the engine sent for this call. */
  push(output: SampleOutput): void {
    if (this.#isOver) return;
    this.hasBegun = true;
    const { promptLogprobs, error } = output.note;
    if (promptLogprobs !== null) this.#promptLogprobs = promptLogprobs;
    if (error !== null) {
      this.fail(errorFor(error.code, error.details));
      return;
    }
    const sample = this.#samples[output.index]!;
    if (sample.finishReason !== null) return;
    this.#append(sample, output);
    if (this.#samples.every((s) => s.finishReason !== null)) this.#end();
    this.#wake?.();
  }

  #append(sample: Sample, output: SampleOutput): void {
    const { finishReason, trace, stopToken, isLoop } = output.note;
    if (sample.stopString === null) this.#appendTokens(sample, output);
    if (finishReason === null) {
      // Stop strings are only seen here, where the text is.
      if (sample.stopString !== null) this.#init.onAbort(output.index);
      return;
    }
    sample.trace = trace;
    sample.finishReason = sample.stopString === null ? finishReason : "stop";
    sample.stopReason = sample.stopString ?? (stopToken >= 0 ? stopToken : isLoop ? "repetition" : null);
  }

  #appendTokens(sample: Sample, output: SampleOutput): void {
    const { numTokens, note } = output;
    const { detokenizer } = sample;
    sample.pending ??= { text: "", guessed: [], tokenIds: [], logprobs: [] };
    const { pending } = sample;
    const before = pending.text.length;
    let text = "";
    for (let i = 0; i < numTokens && detokenizer.stopReason === null; i++) {
      const id = output.tokenAt(i);
      sample.tokenIds.push(id);
      pending.tokenIds.push(id);
      const logprobs = output.logprobsAt(i);
      if (logprobs !== null) {
        sample.logprobs?.push(logprobs);
        pending.logprobs.push(logprobs);
      }
      if (id !== note.stopToken) text += detokenizer.push(id); // a stop token ends the answer and is not part of its text
      // A step gives one token of its own; those before it were guesses.
      if (i === numTokens - 2 && text !== "") pending.guessed.push([before, before + text.length]);
    }
    if (note.finishReason !== null && detokenizer.stopReason === null) text += detokenizer.flush();
    sample.stopString = detokenizer.stopReason;
    sample.text += text;
    pending.text += text;
  }

  fail(error: PagodaError): void {
    if (this.#isOver) return;
    this.#error = error;
    this.#init.onAbort(-1);
    this.#end();
    this.#wake?.();
  }

  abort(): void {
    this.fail(errorFor("aborted"));
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#resolveDone();
    this.#init.onEnd();
  }

  async result(): Promise<GenerateResult> {
    await this.#done;
    if (this.#error !== null) throw this.#error;
    return {
      id: this.id,
      text: this.#samples[0]!.text,
      samples: this.#samples.map((sample, index) => ({
        index,
        text: sample.text,
        tokenIds: sample.tokenIds,
        logprobs: sample.logprobs,
        finishReason: sample.finishReason!,
        stopReason: sample.stopReason,
      })),
      promptLogprobs: this.#promptLogprobs,
      trace: this.trace,
    };
  }

  /** Of the whole call, once it is over: the first sample's, with every sample's tokens counted. */
  get trace(): RequestTrace {
    const sum = (of: (sample: Sample) => number) => this.#samples.reduce((total, sample) => total + of(sample), 0);
    return {
      ...this.#samples[0]!.trace!,
      completionTokens: sum((sample) => sample.tokenIds.length),
      drafts: sum(({ trace }) => trace!.drafts),
      draftTokens: sum(({ trace }) => trace!.draftTokens),
      acceptedTokens: sum(({ trace }) => trace!.acceptedTokens),
    };
  }

  async *[Symbol.asyncIterator](): AsyncIterator<OutputChunk> {
    try {
      for (;;) {
        const chunk = this.#takeChunk();
        if (chunk !== null) yield chunk;
        else if (this.#error !== null) throw this.#error;
        else if (this.#isOver) return;
        else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
      }
    } finally {
      if (!this.#isOver) this.abort(); // the reader left early
    }
  }

  protected textOf(chunk: OutputChunk): string {
    return chunkText(chunk);
  }

  protected wholeText(result: GenerateResult): string {
    return result.text;
  }

  #takeChunk(): OutputChunk | null {
    for (let index = 0; index < this.#samples.length; index++) {
      const sample = this.#samples[index]!;
      const { pending } = sample;
      const isFinal = sample.finishReason !== null && this.#error === null && !sample.isFinalTaken;
      if (pending === null || (pending.text === "" && pending.logprobs.length === 0 && !isFinal)) {
        if (!isFinal) continue;
      }
      sample.pending = null;
      sample.isFinalTaken ||= isFinal;
      return {
        index,
        text: pending?.text ?? "",
        guessed: pending?.guessed ?? [],
        tokenIds: pending?.tokenIds ?? [],
        logprobs: sample.logprobs === null ? null : (pending?.logprobs ?? []),
        promptLogprobs: this.#takePromptLogprobs(),
        finishReason: isFinal ? sample.finishReason : null,
        stopReason: isFinal ? sample.stopReason : null,
      };
    }
    return null;
  }

  #takePromptLogprobs(): GenerateResult["promptLogprobs"] {
    if (this.#arePromptLogprobsTaken) return null;
    this.#arePromptLogprobsTaken = this.#promptLogprobs !== null;
    return this.#promptLogprobs;
  }
}

/** Of sample 0, as the text of a result is. */
export function chunkText({ index, text }: OutputChunk): string {
  return index === 0 ? text : "";
}
