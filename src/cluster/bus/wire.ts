// What routers and replicas say to each other, and how outputs look as JSON: plain numbers keep their bits, vectors travel as base64,
// log-probabilities of minus infinity as null, and what is absent is left out.

import { pageSalt } from "../../cache/page-hash.js";
import type { PositionLogprobs, SamplingParams } from "../../core/sampling.js";
import type { Speculation } from "../../core/speculation.js";
import type { RequestKind, TextFields, WireError } from "../../engine/messages.js";
import type { OutputNote, OutputTable, SampleOutput } from "../../engine/outputs.js";
import type { RequestTrace } from "../../engine/types.js";
import type { ConstraintSpec } from "../../grammar/constraint.js";

/**
 * Of everything said here and of the members' entries. A member that hears another one says so ("unsupported", which is the same in every
 * protocol) and leaves the message alone; routers send nothing to replicas whose entry has another.
 */
export const PROTOCOL = 1;

/** A call, or one sample of it, that a replica is asked to serve. `id` is the router's name for this attempt. */
export interface AddCall extends TextFields {
  readonly type: "add";
  readonly id: string;
  readonly kind: RequestKind;
  readonly prompt: readonly number[];
  readonly sampling: SamplingParams;
  readonly priority: number;
  readonly salt: string;
  /** Left out: "". */
  readonly client?: string;
  readonly constraint: ConstraintSpec | null;
  /** Left out: as the replica does. */
  readonly speculation?: Speculation;
  /** Left out: the model as it is. `identity`: of its numbers as the replica's entry has it. */
  readonly adapter?: { readonly name: string; readonly identity: string; readonly scale: number };
  /** Silence of the router after which it is dead, and this call nobody's. */
  readonly leaseMs: number;
  /** A replica of the same identity that holds more of the prompt, when fetching it from there is expected to be quicker than computing it. */
  readonly peer?: string;
  /** What other replicas have given of sample `index`. */
  readonly resumed: { readonly index: number; readonly tokens: readonly number[] } | null;
}

/** What is asked for, before it is known where and under which name. */
export type CallRequest = Omit<AddCall, "id" | "leaseMs" | "peer">;

/** Of a call's pages. Only an adapter at its full scale has the identity that is known of it. */
export function saltOf(salt: string, adapter: AddCall["adapter"]): string {
  if (adapter === undefined) return salt;
  return pageSalt(salt, adapter.scale === 1 ? adapter.identity : `${adapter.identity} x ${adapter.scale}`);
}

export type ToReplica =
  | AddCall
  | { readonly type: "abort"; readonly id: string; readonly index: number }
  /** Sent all the time: the attempts that this router believes to be open here. What it does not name is to be ended. */
  | { readonly type: "open"; readonly ids: readonly string[]; readonly leaseMs: number }
  | { readonly type: "prefixes" }
  /** Between replicas: a prefix is asked for and, at the address that comes back, lent; hot prefixes are offered. */
  | {
      readonly type: "lend";
      readonly id: string;
      /** Of the engine that asks: pages of another are of no use to it. */
      readonly identity: string;
      readonly prompt: readonly number[];
      readonly salt: string;
      /** What comes before it is there already. */
      readonly firstPage: number;
    }
  /** url null: it is not lent. */
  | { readonly type: "lent"; readonly id: string; readonly url: string | null }
  | { readonly type: "offer"; readonly identity: string; readonly url: string };

export type ToRouter =
  | { readonly type: "outputs"; readonly outputs: readonly WireOutput[] }
  /** Attempts that the replica knows nothing of, or no longer. */
  | { readonly type: "gone"; readonly ids: readonly string[] }
  | PrefixMessage;

/** Changes of what a replica holds (`seq` counts them within an epoch), or, as an answer, all of it as of change `seq`. */
export interface PrefixMessage {
  readonly type: "prefixes";
  readonly epoch: number;
  readonly seq: number;
  readonly isSnapshot: boolean;
  /** Base64 of 32-bit words (prefix-journal.ts). */
  readonly changes: string;
}

export interface WireOutput {
  readonly id: string;
  readonly index?: number;
  /** Tokens of the sample before these: shows what was lost on the way. */
  readonly at: number;
  readonly tokens?: readonly number[];
  readonly logprobs?: readonly WireLogprobs[];
  readonly finishReason?: OutputNote["finishReason"];
  readonly stopToken?: number;
  readonly isLoop?: true;
  readonly promptLogprobs?: readonly (WireLogprobs | null)[];
  readonly vector?: string;
  readonly trace?: RequestTrace;
  readonly error?: WireError;
}

/** Id and log-probability of the token, then of each alternative. */
type WireLogprobs = readonly (number | null)[];

/** What a sample got, as it goes over the wire; `at` of its tokens have gone before. */
export function toWireOutput(id: string, at: number, output: SampleOutput): WireOutput {
  const { index, numTokens, note } = output;
  const { finishReason, stopToken, isLoop, promptLogprobs, vector, trace, error } = note;
  const tokens = Array.from({ length: numTokens }, (_, i) => output.tokenAt(i));
  const hasLogprobs = numTokens > 0 && output.logprobsAt(0) !== null;
  return {
    id,
    at,
    ...(index > 0 ? { index } : {}),
    ...(numTokens > 0 ? { tokens } : {}),
    ...(hasLogprobs ? { logprobs: tokens.map((_, i) => flatten(output.logprobsAt(i)!)) } : {}),
    ...(finishReason === null ? {} : { finishReason }),
    ...(stopToken < 0 ? {} : { stopToken }),
    ...(isLoop ? { isLoop } : {}),
    ...(promptLogprobs === null
      ? {}
      : { promptLogprobs: promptLogprobs.map((entry) => (entry === null ? null : flatten(entry))) }),
    ...(vector === null
      ? {}
      : { vector: Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString("base64") }),
    ...(trace === null ? {} : { trace }),
    ...(error === null ? {} : { error }),
  };
}

/** What came over the wire for a sample, among what goes to its caller. */
export function addWireOutput(outputs: OutputTable, handle: number, wire: WireOutput): void {
  const { tokens = [], logprobs, finishReason = null, stopToken = -1, trace = null, error = null } = wire;
  for (const [i, token] of tokens.entries()) {
    outputs.addToken(token);
    const flat = logprobs?.[i] ?? [];
    for (let e = 0; e < flat.length; e += 2) outputs.addLogprob(flat[e]!, flat[e + 1] ?? Number.NEGATIVE_INFINITY);
  }
  const promptLogprobs = wire.promptLogprobs?.map((entry) => (entry === null ? null : unflatten(entry))) ?? null;
  const vector = wire.vector === undefined ? null : floatsOf(wire.vector);
  const note = { finishReason, stopToken, isLoop: wire.isLoop === true, promptLogprobs, vector, trace, error };
  const isPlain = finishReason === null && promptLogprobs === null && error === null;
  outputs.addRow(handle, isPlain ? null : note);
}

export function wordsToText(words: Int32Array): string {
  return Buffer.from(words.buffer, words.byteOffset, words.byteLength).toString("base64");
}

export function textToWords(text: string): Int32Array {
  const bytes = Buffer.from(text, "base64");
  return new Int32Array(Uint8Array.from(bytes).buffer, 0, Math.floor(bytes.length / 4));
}

function floatsOf(text: string): Float32Array {
  const words = textToWords(text);
  return new Float32Array(words.buffer, 0, words.length);
}

function flatten({ id, logprob, top }: PositionLogprobs): WireLogprobs {
  return [id, finite(logprob), ...top.flatMap((other) => [other.id, finite(other.logprob)])];
}

function unflatten(flat: WireLogprobs): PositionLogprobs {
  const at = (i: number) => ({ id: flat[i]!, logprob: flat[i + 1] ?? Number.NEGATIVE_INFINITY });
  const top = Array.from({ length: flat.length / 2 - 1 }, (_, i) => at(2 * i + 2));
  return { ...at(0), top };
}

function finite(logprob: number): number | null {
  return logprob === Number.NEGATIVE_INFINITY ? null : logprob;
}
