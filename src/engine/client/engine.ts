// The engine as its callers see it: text in, text out. Validates, renders templates and tokenises here, on the caller's thread;
// everything else happens behind the host. A thread that dies is started again; calls that had not begun are kept.

import { randomBytes, randomUUID } from "node:crypto";
import type { z } from "zod";
import type { PrefixChange } from "../../cache/prefix-journal.js";
import { type EngineConfig, engineConfig } from "../../config/engine-config.js";
import { CapacityError, EngineDeadError, errorFor, type PagodaError, RequestError } from "../../core/errors.js";
import { uniformAt } from "../../core/random.js";
import { resolveModel } from "../../formats/hub/hub.js";
import type { ChatPrompt } from "../../tokenizer/chat-template.js";
import { StreamDetokenizer } from "../../tokenizer/stream-detokenizer.js";
import type { EncodeOptions } from "../../tokenizer/tokenizer.js";
import { type Checkpoint, openCheckpoint } from "../checkpoint.js";
import type { PagesTaken } from "../core/page-exchange.js";
import type { AddMessage, EngineFacts, FromEngine, RequestKind, TextFields, ToEngine } from "../messages.js";
import type {
  CachePicture,
  ChatMessage,
  EmbedOptions,
  EmbedResult,
  Engine,
  EngineHealth,
  EngineStats,
  GenerateOptions,
  Generation,
  ModelInfo,
  RerankOptions,
  RerankResult,
  ScoreOptions,
  ScoreResult,
  StepPlan,
  StepRecord,
  StepRow,
  TemplateOptions,
  TextOptions,
} from "../types.js";
import { type CallLine, type CallReader, EmbeddingReader } from "./call-reader.js";
import { TextGeneration } from "./generation.js";
import { type EngineHost, type StartHost, startHost } from "./host.js";
import { generateObject, type ObjectRequest, type ObjectResult } from "./object.js";
import { type Deliver, type RelayCall, type RelayEngine, RelayReader, textFieldsOf } from "./relay.js";
import { StepLog } from "./step-log.js";
import { TextTasks } from "./text-tasks.js";
import { TokenizerThread } from "./tokenizer-thread.js";
import { Turns } from "./turns.js";
import { checkConstraint, checkPrompt, checkResumed, checkSampling, checkText } from "./validate.js";

/** What `createEngine` takes: any of the engine's options, and who hears how far loading is. */
export interface EngineOptions extends Partial<EngineConfig> {
  /** Hears how many bytes of weights are loaded. */
  readonly onProgress?: (loadedBytes: number, totalBytes: number) => void;
  /** Hears how many bytes of a model of the hub are there, when it has to be fetched first. */
  readonly onPull?: (doneBytes: number, totalBytes: number, file: string) => void;
}

/** Loads a model, pulling it from the hub where need be, and starts its engine. Options are checked before anything is loaded. */
export function createEngine(options: EngineOptions = {}): Promise<Engine> {
  return startEngine(options);
}

/** The same, as those see it who lend it to other processes. */
export async function startEngine(options: EngineOptions): Promise<RelayEngine> {
  const { onProgress, onPull, ...rest } = options;
  const config = engineConfig(rest);
  const model = await resolveModel(config.model, onPull === undefined ? {} : { onProgress: onPull });
  const engine = new HostedEngine(Object.freeze({ ...config, model }), onProgress ?? null);
  await engine.ready;
  return engine;
}

/** How often a dying thread is restarted before the engine gives up, as long as no call ends well in between. */
const MAX_RESTARTS_IN_A_ROW = 3;
const MAX_TIMEOUT_MS = 2 ** 31 - 1;
/** Characters that are tokenised in about ten milliseconds. */
const LONG_TEXT = 16_384;

/** A call that has not ended. */
interface OpenCall {
  readonly reader: CallReader;
  readonly message: AddMessage;
  readonly editLogits: GenerateOptions["editLogits"] | null;
  /** Stops listening to the caller's signal. */
  readonly unlisten: () => void;
}

interface Reply {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** An engine behind a host: a thread of its own, the caller's thread, or other machines. */
export class HostedEngine implements RelayEngine {
  readonly ready: Promise<void>;
  readonly #config: EngineConfig;
  readonly #checkpoint: Checkpoint;
  readonly #texts: TextTasks;
  readonly #longTexts: TokenizerThread;
  readonly #turns = new Turns(LONG_TEXT);
  readonly #calls = new Map<string, OpenCall>();
  readonly #replies = new Map<number, Reply>();
  readonly #log = new StepLog();
  readonly #seed: number;
  #host!: EngineHost;
  #facts!: EngineFacts;
  #state: Exclude<EngineHealth["state"], "away"> = "restarting";
  #restarts = 0;
  #restartsInARow = 0;
  #lastError: string | null = null;
  #numCalls = 0;
  #numQueries = 0;
  #hold: NodeJS.Timeout | null = null;
  readonly #startHost: StartHost;
  #onPrefixes: ((change: PrefixChange) => void) | null = null;
  /** Why the host cannot serve just now. */
  #away: string | null = null;

  constructor(
    config: EngineConfig,
    onProgress: EngineOptions["onProgress"] | null,
    start: StartHost = startHost,
    checkpoint: Checkpoint = openCheckpoint(config.model),
  ) {
    this.#config = config;
    this.#startHost = start;
    this.#seed = config.seed ?? randomBytes(6).readUIntBE(0, 6);
    this.#checkpoint = checkpoint;
    this.#texts = new TextTasks(
      this.#checkpoint,
      () => this.#facts,
      (...text) => this.tokenizeAside(...text),
      (...text) => this.#runText(...text),
    );
    this.#longTexts = new TokenizerThread(config.model);
    this.#holdProcess();
    this.ready = this.#start(onProgress ?? null);
    this.#checkpoint.tokenizer?.encode("its tables are made while the weights are loaded");
  }

  get model(): ModelInfo {
    const { architecture, vocabSize, maxContext, task, device } = this.#facts;
    const { name, chatTemplate } = this.#checkpoint;
    return { name, architecture, vocabSize, maxContext, task, device, hasChatTemplate: chatTemplate !== null };
  }

  get facts(): EngineFacts {
    return this.#facts;
  }

  get eosIds(): readonly number[] {
    return this.#checkpoint.eosIds;
  }

  get chatTemplate(): string | null {
    return this.#checkpoint.chatTemplate?.source ?? null;
  }

  health(): EngineHealth {
    if (this.#state === "ready" && this.#away !== null)
      return { state: "away", restarts: this.#restarts, lastError: this.#away };
    return { state: this.#state, restarts: this.#restarts, lastError: this.#lastError };
  }

  generate(prompt: string | readonly number[], options: GenerateOptions = {}): Generation {
    const ids = typeof prompt === "string" ? this.tokenize(prompt) : prompt;
    return this.#submit(ids, options);
  }

  chat(messages: string | readonly ChatMessage[], options: GenerateOptions & TemplateOptions = {}): Generation {
    if (typeof messages === "string") return this.chat([{ role: "user", content: messages }], options);
    const { text, content } = this.renderPrompt(messages, options);
    return this.#submit(this.tokenize(text, { addSpecialTokens: false, content }), options);
  }

  object<Schema extends z.ZodType>(request: ObjectRequest<Schema>): Promise<ObjectResult<z.output<Schema>>> {
    return generateObject(this, request);
  }

  renderChat(messages: readonly ChatMessage[], options: TemplateOptions = {}): string {
    return this.renderPrompt(messages, options).text;
  }

  renderPrompt(messages: readonly ChatMessage[], options: TemplateOptions = {}): ChatPrompt {
    const { chatTemplate, name } = this.#checkpoint;
    if (chatTemplate === null) throw new RequestError("no_chat_template", { model: name });
    const prompt = chatTemplate.renderPrompt(messages, {
      continueFinalMessage: options.continueFinalMessage === true,
      ...(options.tools === undefined ? {} : { tools: options.tools }),
      ...(options.templateArgs === undefined ? {} : { variables: options.templateArgs }),
    });
    return this.#config.controlTokensInContent ? { ...prompt, content: [] } : prompt;
  }

  async embed(inputs: readonly (string | readonly number[])[], options: EmbedOptions = {}): Promise<EmbedResult> {
    return this.#texts.embed(inputs, options);
  }

  async score(pairs: readonly (readonly [string, string])[], options: ScoreOptions = {}): Promise<ScoreResult> {
    return this.#texts.score(pairs, options);
  }

  async rerank(query: string, documents: readonly string[], options: RerankOptions = {}): Promise<RerankResult> {
    return this.#texts.rerank(query, documents, options);
  }

  tokenize(text: string, options: EncodeOptions = {}): number[] {
    return this.#checkpoint.requireTokenizer().encode(text, options);
  }

  async tokenizeAside(text: string, options: EncodeOptions = {}, signal?: AbortSignal): Promise<number[]> {
    if (!this.#config.worker) return this.tokenize(text, options);
    this.#checkpoint.requireTokenizer(); // says so at once where there is none
    if (text.length > LONG_TEXT) return this.#longTexts.encode(text, options, signal);
    await this.#turns.take(text.length);
    if (signal?.aborted) throw errorFor("aborted");
    return this.tokenize(text, options);
  }

  detokenize(ids: readonly number[]): string {
    return this.#checkpoint.requireTokenizer().decode(ids);
  }

  tokenBytes(id: number): Uint8Array {
    return this.#checkpoint.requireTokenizer().tokenBytes(id);
  }

  warm(): void {
    if (this.#state === "ready" && this.#facts.task === "generate") this.#host.post({ type: "warm" }, null);
  }

  stats(): Promise<EngineStats> {
    return this.#query<EngineStats>("stats");
  }

  cacheSnapshot(): Promise<CachePicture> {
    return this.#query<CachePicture>("cache");
  }

  async plan(step: number): Promise<readonly StepPlan[] | null> {
    const record = this.#log.history().find((past) => past.step === step);
    return record === undefined ? null : this.#query<readonly StepPlan[]>("plan", record.rows);
  }

  stepHistory(): readonly StepRecord[] {
    return this.#log.history();
  }

  steps(options: { signal?: AbortSignal } = {}): AsyncIterable<StepRecord> {
    return this.#log.follow(options.signal);
  }

  relay(call: RelayCall, deliver: Deliver): (index: number) => void {
    const { options, resumed } = call;
    const message = this.#message(call.kind, call.prompt, options, textFieldsOf(call));
    if (resumed !== null) checkResumed(resumed, message, this.#facts);
    const line = this.#lineOf(message.callId);
    const reader = new RelayReader(line, call.kind === "generate" ? message.sampling.n : 1, deliver);
    this.#post(resumed === null ? message : { ...message, resumed }, reader, options);
    return (index) => (index < 0 ? reader.fail(errorFor("aborted")) : line.onAbort(index));
  }

  lendPages(prompt: Int32Array, salt: string, from: number, maxBytes: number): Promise<Uint8Array> {
    return this.#ask((seq) => ({ type: "lend_pages", seq, prompt, salt, from, maxBytes }));
  }

  takePages(prompt: Int32Array, salt: string, bytes: Uint8Array): Promise<PagesTaken> {
    return this.#ask((seq) => ({ type: "take_pages", seq, prompt, salt, bytes }));
  }

  watchPrefixes(listener: (change: PrefixChange) => void): void {
    this.#onPrefixes = listener;
    if (this.#state === "ready") this.#host.post({ type: "watch_prefixes" }, null);
  }

  async close(): Promise<void> {
    if (this.#state === "closed") return;
    this.#state = "closed";
    for (const call of [...this.#calls.values()]) this.#failCall(call, this.#deathError());
    this.#log.end();
    this.#rejectReplies();
    await Promise.all([this.#host.close(), this.#longTexts.close()]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  // --- calls -------------------------------------------------------------------------------------------------------

  #submit(ids: readonly number[], options: GenerateOptions): Generation {
    if (this.#facts.task !== "generate") {
      const { name: model } = this.#checkpoint;
      throw new RequestError("task_unsupported", { model, task: "generate", reason: "it embeds or scores texts." });
    }
    const message = this.#message("generate", ids, options);
    const { callId, sampling } = message;
    const tokenizer = this.#checkpoint.requireTokenizer();
    const { skipSpecialTokens = true } = options;
    const generation = new TextGeneration({
      id: callId,
      n: sampling.n,
      wantsLogprobs: sampling.logprobs !== null,
      makeDetokenizer: () =>
        new StreamDetokenizer(tokenizer, { stop: sampling.stop, minTokens: sampling.minTokens, skipSpecialTokens }),
      ...this.#lineOf(callId),
    });
    this.#post(message, generation, options);
    return generation;
  }

  #runText(kind: RequestKind, ids: readonly number[], fields: TextFields, options: TextOptions): Promise<Float32Array> {
    const { salt = "", client = "" } = options;
    const message = this.#message(kind, ids, { maxTokens: 1, salt, client }, fields);
    const reader = new EmbeddingReader(this.#lineOf(message.callId));
    this.#post(message, reader, options);
    return reader.vector;
  }

  #lineOf(callId: string): CallLine {
    return {
      onAbort: (index) => this.#host.post({ type: "abort", callId, index }, null),
      onEnd: () => this.#forget(callId),
    };
  }

  #message(kind: RequestKind, ids: readonly number[], options: GenerateOptions, text: TextFields = {}): AddMessage {
    const facts = this.#facts;
    const prompt = kind === "generate" ? checkPrompt(ids, facts) : checkText(ids, facts);
    const sampling = checkSampling(options, this.#checkpoint.generation.sampling, facts, prompt.length, () =>
      this.#freshSeed(),
    );
    const { priority = 0, salt = "", client = "", editLogits } = options;
    const constraint = checkConstraint(options.constraint);
    if (!Number.isSafeInteger(priority)) throw invalid("priority", priority, "a whole number");
    if (typeof salt !== "string") throw invalid("salt", salt, "a string");
    if (typeof client !== "string") throw invalid("client", client, "a string");
    if (editLogits !== undefined && this.#config.worker) {
      throw invalid(
        "editLogits",
        "a function",
        "absent: functions cannot cross to the engine's thread; create the engine with worker: false",
      );
    }
    const callId = options.id ?? `req-${randomUUID()}`;
    if (this.#calls.has(callId)) throw invalid("id", callId, "unique among running requests");
    const asked = { prompt, sampling, priority, salt, client, constraint };
    return { type: "add", callId, kind, ...text, ...asked, arrivalMs: now() };
  }

  #post(
    message: AddMessage,
    reader: CallReader,
    options: { readonly signal?: AbortSignal; readonly editLogits?: GenerateOptions["editLogits"] },
  ): void {
    if (this.#state === "closed" || this.#state === "dead") throw this.#deathError();
    if (this.#calls.size >= this.#config.maxQueue) {
      throw new CapacityError("queue_full", { value: this.#calls.size, limit: this.#config.maxQueue });
    }
    const editLogits = options.editLogits ?? null;
    const { signal } = options;
    const onSignal = () => this.#failCall(call, errorFor("aborted"));
    const unlisten = () => signal?.removeEventListener("abort", onSignal);
    const call: OpenCall = { message, reader, editLogits, unlisten };
    this.#calls.set(message.callId, call);
    this.#numCalls++;
    this.#holdProcess();
    if (this.#state === "ready") this.#host.post(message, editLogits);
    if (signal?.aborted) queueMicrotask(onSignal);
    else signal?.addEventListener("abort", onSignal, { once: true });
  }

  #failCall(call: OpenCall, error: PagodaError): void {
    if (this.#calls.has(call.message.callId)) call.reader.fail(error);
  }

  /** A call has ended. */
  #forget(callId: string): void {
    this.#calls.get(callId)?.unlisten();
    this.#calls.delete(callId);
    this.#holdProcess();
  }

  /**
   * The engine's thread by itself does not keep the process alive: loading does, and calls and queries under way. So a program
   * that forgets close() still ends when its work is done.
   */
  #holdProcess(): void {
    const isBusy = this.#state === "restarting" || this.#calls.size > 0 || this.#replies.size > 0;
    if (isBusy) this.#hold ??= setInterval(() => undefined, MAX_TIMEOUT_MS);
    else this.#letGo();
  }

  #letGo(): void {
    clearInterval(this.#hold ?? undefined);
    this.#hold = null;
  }

  /** A seed that no caller chose: drawn from the engine's own, in order of arrival. */
  #freshSeed(): number {
    return Math.floor(uniformAt(this.#seed, 0xf5, this.#numCalls) * Number.MAX_SAFE_INTEGER);
  }

  #query<T>(what: "stats" | "cache" | "plan", rows: readonly StepRow[] = []): Promise<T> {
    return this.#ask((seq) => ({ type: "query", seq, what, rows }));
  }

  #ask<T>(messageOf: (seq: number) => ToEngine): Promise<T> {
    if (this.#state !== "ready") return Promise.reject(this.#deathError());
    const seq = this.#numQueries++;
    return new Promise((resolve, reject) => {
      this.#replies.set(seq, { resolve: resolve as (value: unknown) => void, reject });
      this.#holdProcess();
      this.#host.post(messageOf(seq), null);
    });
  }

  // --- the engine's thread -----------------------------------------------------------------------------------------

  #start(onProgress: EngineOptions["onProgress"] | null): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#host = this.#startHost(this.#config, (message: FromEngine) => {
        if (message.type === "progress") onProgress?.(message.loadedBytes, message.totalBytes);
        else if (message.type === "ready") {
          this.#facts = message.facts;
          if (this.#state !== "closed") this.#state = "ready";
          this.#holdProcess();
          if (this.#onPrefixes !== null) this.#host.post({ type: "watch_prefixes" }, null);
          resolve();
        } else if (message.type === "prefixes") this.#onPrefixes?.(message.change);
        else if (message.type === "away") this.#away = message.reason;
        else if (message.type === "dead") {
          const error = errorFor(message.error.code, message.error.details);
          reject(error);
          this.#onDeath(error);
        } else this.#receive(message);
      });
    });
  }

  #receive(message: Extract<FromEngine, { type: "outputs" | "reply" }>): void {
    if (message.type === "reply") {
      this.#replies.get(message.seq)?.resolve(message.value);
      this.#replies.delete(message.seq);
      this.#holdProcess();
      return;
    }
    if (message.step !== null) this.#log.append(message.step);
    for (const output of message.outputs) {
      const call = this.#calls.get(output.callId);
      if (call === undefined) continue;
      call.reader.push(output);
      if (output.finishReason === "stop" || output.finishReason === "length") this.#restartsInARow = 0;
    }
  }

  /** Calls that had begun fail; those that had not wait for the new thread. A load that fails, or keeps failing, is the end. */
  #onDeath(error: Error): void {
    this.#lastError = error.message;
    const wasReady = this.#state === "ready";
    if (this.#state === "closed") return;
    this.#rejectReplies();
    if (!wasReady || ++this.#restartsInARow > MAX_RESTARTS_IN_A_ROW) {
      this.#state = "dead";
      for (const call of [...this.#calls.values()]) this.#failCall(call, this.#deathError());
      this.#holdProcess();
      return;
    }
    this.#state = "restarting";
    this.#holdProcess();
    this.#restarts++;
    for (const call of [...this.#calls.values()]) {
      if (call.reader.hasBegun) this.#failCall(call, new EngineDeadError("engine_dead", { reason: error.message }));
    }
    this.#start(null).then(
      () => {
        for (const call of this.#calls.values()) this.#host.post(call.message, call.editLogits ?? null);
      },
      () => undefined, // #onDeath has said so
    );
  }

  /** Nobody is left to answer. */
  #rejectReplies(): void {
    for (const reply of this.#replies.values()) reply.reject(this.#deathError());
    this.#replies.clear();
    this.#holdProcess();
  }

  #deathError(): EngineDeadError {
    return new EngineDeadError("engine_dead", { reason: this.#deathReason() });
  }

  #deathReason(): string {
    return this.#state === "closed" ? "it was closed." : (this.#lastError ?? "its thread ended.");
  }

  /** Test hook: a fault in the next step, or of the thread. */
  injectFault(where: "step" | "thread"): void {
    this.#host.post({ type: "fault", where }, null);
  }
}

function invalid(param: string, value: unknown, expected: string): RequestError {
  return new RequestError("invalid_value", { param, value: String(value), expected });
}

/** Milliseconds on a clock that all threads of the process share. */
export function now(): number {
  return performance.timeOrigin + performance.now();
}
