// A call as it crosses to the engine: every field checked here, on the caller's side, and trusted behind it.

import { randomUUID } from "node:crypto";
import type { AdapterRef } from "../../adapters/adapter.js";
import { RequestError } from "../../core/errors.js";
import { SALT_END } from "../../core/page-salt.js";
import type { SamplingParams } from "../../core/sampling.js";
import type { AddMessage, EngineFacts, RequestKind, TextFields } from "../messages.js";
import type { AdapterChoice, GenerateOptions } from "../types.js";
import { checkConstraint, checkPrompt, checkSampling, checkSpeculation, checkText } from "./validate.js";

/** What the engine itself brings to the check of a call. */
export interface CallBounds {
  readonly facts: EngineFacts;
  /** The model's own sampling. */
  readonly suggested: Partial<SamplingParams>;
  /** The engine runs in a thread of its own. */
  readonly isRemote: boolean;
  /** Throws for an adapter that nobody knows. */
  adapterOf(choice: AdapterChoice): AdapterRef;
  /** A call of this id is under way. */
  isTaken(callId: string): boolean;
  /** For a call whose caller chose no seed. */
  freshSeed(): number;
}

export function addMessage(
  bounds: CallBounds,
  kind: RequestKind,
  ids: readonly number[],
  options: GenerateOptions,
  text: TextFields = {},
): AddMessage {
  const { facts, suggested } = bounds;
  const leastAnswer = options.maxTokens === 0 ? 0 : 1;
  const prompt = kind === "generate" ? checkPrompt(ids, facts, leastAnswer) : checkText(ids, facts);
  const sampling = checkSampling(options, suggested, facts, prompt.length, () => bounds.freshSeed());
  const { priority = 0, salt = "", client = "", editLogits } = options;
  const constraint = checkConstraint(options.constraint);
  const speculation = checkSpeculation(options.speculative, facts.predictor);
  if (!Number.isSafeInteger(priority)) throw invalid("priority", priority, "a whole number");
  if (typeof salt !== "string" || salt.includes(SALT_END))
    throw invalid("salt", salt, "a string without the character NUL");
  if (typeof client !== "string") throw invalid("client", client, "a string");
  if (editLogits !== undefined && bounds.isRemote) {
    throw invalid(
      "editLogits",
      "a function",
      "absent: functions cannot cross to the engine's thread; create the engine with worker: false",
    );
  }
  const callId = options.id ?? `req-${randomUUID()}`;
  if (bounds.isTaken(callId)) throw invalid("id", callId, "unique among running requests");
  const asked = { prompt, sampling, priority, salt, client, constraint };
  const adapter = options.adapter === undefined ? {} : { adapter: bounds.adapterOf(options.adapter) };
  const spoken = speculation === null ? {} : { speculation };
  return { type: "add", callId, kind, ...text, ...asked, ...adapter, ...spoken, arrivalMs: now() };
}

function invalid(param: string, value: unknown, expected: string): RequestError {
  return new RequestError("invalid_value", { param, value: String(value), expected });
}

/** Milliseconds on a clock that all threads of the process share. */
function now(): number {
  return performance.timeOrigin + performance.now();
}
