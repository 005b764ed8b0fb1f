// The connection to an engine's host: calls and questions under way, and what becomes of them when the host dies. A thread that dies is
// started again; calls that had not begun are kept.

import type { PrefixChange } from "../../cache/prefix-journal.js";
import type { EngineConfig } from "../../config/engine-config.js";
import { CapacityError, EngineDeadError, errorFor, type PagodaError } from "../../core/errors.js";
import type { AddMessage, EngineFacts, FromEngine, ToEngine } from "../messages.js";
import { OutputReader } from "../outputs.js";
import type { AdapterInfo, EngineHealth, GenerateOptions } from "../types.js";
import type { CallChannel, CallReader } from "./call-reader.js";
import type { EngineHost, StartHost } from "./host.js";
import { IdleTimer } from "./idle-timer.js";
import { StepLog } from "./step-log.js";

/** Hears how many bytes of weights are loaded. */
export type OnProgress = (loadedBytes: number, totalBytes: number) => void;

/** How often a dying thread is restarted before the engine gives up, as long as no call ends well in between. */
const MAX_RESTARTS_IN_A_ROW = 3;

/** A call that has not ended. */
interface OpenCall {
  readonly reader: CallReader;
  readonly message: AddMessage;
  readonly editLogits: GenerateOptions["editLogits"] | null;
  /** Stops listening to the caller's signal. */
  readonly unlisten: () => void;
  isOver: boolean;
}

export class EngineConnection {
  readonly ready: Promise<void>;
  readonly log = new StepLog();
  readonly #config: EngineConfig;
  readonly #startHost: StartHost;
  readonly #calls = new Map<string, OpenCall>();
  readonly #replies = new Replies();
  readonly #outputs = new OutputReader<OpenCall>((callId) => this.#calls.get(callId));
  readonly #hold = new KeepAlive();
  readonly #idle: IdleTimer;
  /** Resolves when the host that was put to sleep is gone, and when the one that takes its place can be asked. */
  #asleep: Promise<void> = Promise.resolve();
  #awake: Promise<void> = Promise.resolve();
  #host!: EngineHost;
  #facts!: EngineFacts;
  #state: Exclude<EngineHealth["state"], "away"> = "restarting";
  #restarts = 0;
  #restartsInARow = 0;
  #lastError: string | null = null;
  #onPrefixes: ((change: PrefixChange) => void) | null = null;
  /** Why the host cannot serve just now. */
  #away: string | null = null;
  /** Hears which adapters an engine has that is elsewhere. */
  onAdapters: (adapters: readonly AdapterInfo[]) => void = () => undefined;
  /** Opened so far. */
  numCalls = 0;

  constructor(config: EngineConfig, startHost: StartHost, onProgress: OnProgress | null) {
    this.#config = config;
    this.#startHost = startHost;
    this.#idle = new IdleTimer(config.sleepIdleSeconds, () => this.#fallAsleep());
    this.#holdProcess();
    this.ready = this.#start(onProgress);
  }

  /** Known once it is ready. */
  get facts(): EngineFacts {
    return this.#facts;
  }

  health(): EngineHealth {
    if (this.#state === "ready" && this.#away !== null)
      return { state: "away", restarts: this.#restarts, lastError: this.#away };
    return { state: this.#state, restarts: this.#restarts, lastError: this.#lastError };
  }

  /** A call of this id is under way. */
  has(callId: string): boolean {
    return this.#calls.has(callId);
  }

  /** Throws where so many calls more are more than may wait. */
  requireRoom(count: number): void {
    const { maxQueue } = this.#config;
    if (this.#calls.size + count > maxQueue)
      throw new CapacityError("queue_full", { value: this.#calls.size, limit: maxQueue });
  }

  /** Sends a call and hears for it until it ends. */
  open(
    message: AddMessage,
    reader: CallReader,
    options: { readonly signal?: AbortSignal; readonly editLogits?: GenerateOptions["editLogits"] },
  ): void {
    if (this.#state === "closed" || this.#state === "dead") throw this.#deathError();
    this.requireRoom(1);
    const editLogits = options.editLogits ?? null;
    const { signal } = options;
    const onSignal = () => this.#failCall(call, errorFor("aborted"));
    const unlisten = () => signal?.removeEventListener("abort", onSignal);
    const call: OpenCall = { message, reader, editLogits, unlisten, isOver: false };
    this.#calls.set(message.callId, call);
    this.numCalls++;
    this.#holdProcess();
    if (this.#state === "ready") this.#host.post(message, editLogits);
    else this.#wake();
    if (signal?.aborted) queueMicrotask(onSignal);
    else signal?.addEventListener("abort", onSignal);
  }

  #failCall(call: OpenCall, error: PagodaError): void {
    if (!call.isOver) call.reader.fail(error);
  }

  /** A call has ended. */
  #forget(callId: string): void {
    const call = this.#calls.get(callId);
    if (call === undefined) return;
    call.unlisten();
    call.isOver = true;
    this.#calls.delete(callId);
    this.#holdProcess();
  }

  /** Bytes of the prepared pictures that calls under way hold, each picture once. */
  get pictureBytes(): number {
    const bytesOf = new Map<string, number>();
    for (const { message } of this.#calls.values())
      for (const medium of message.media ?? [])
        if ("picture" in medium) bytesOf.set(medium.picture.id.join(), medium.picture.frame.pixels.byteLength);
    return [...bytesOf.values()].reduce((sum, bytes) => sum + bytes, 0);
  }

  #holdProcess(): void {
    this.#hold.set(this.#state === "restarting" || this.#calls.size > 0 || !this.#replies.isEmpty);
    this.#idle.mark(this.#state !== "ready" || this.#calls.size > 0);
  }

  channelFor(callId: string): CallChannel {
    return {
      onAbort: (index) => this.#host.post({ type: "abort", callId, index }, null),
      onEnd: () => this.#forget(callId),
    };
  }

  request<T>(messageOf: (seq: number) => ToEngine): Promise<T> {
    if (this.#state === "asleep") {
      this.#wake();
      return this.#awake.then(() => this.request(messageOf));
    }
    if (this.#state !== "ready") return Promise.reject(this.#deathError());
    const reply = this.#replies.ask<T>((seq) => this.#host.post(messageOf(seq), null));
    this.#holdProcess();
    return reply;
  }

  /** Says something that has no answer; lost when the host is not ready. */
  send(message: ToEngine): void {
    if (this.#state === "ready") this.#host.post(message, null);
  }

  watchPrefixes(listener: (change: PrefixChange) => void): void {
    this.#onPrefixes = listener;
    this.send({ type: "watch_prefixes" });
  }

  /** It sleeps when nothing was asked for so long; null: never; left out: as it is configured. */
  sleepAfter(seconds: number | null = this.#config.sleepIdleSeconds): void {
    this.#idle.set(seconds);
  }

  /** When it falls asleep, if nothing is asked before, on the clock of performance.now(). */
  get asleepAtMs(): number | null {
    return this.#idle.endMs;
  }

  /** Lets the host's memory go until something is asked; false: something is under way. */
  async sleep(): Promise<boolean> {
    const sleeps = this.#fallAsleep();
    await this.#asleep;
    return sleeps;
  }

  #fallAsleep(): boolean {
    if (this.#state === "asleep") return true;
    if (this.#state !== "ready" || this.#away !== null || this.#calls.size > 0 || !this.#replies.isEmpty) return false;
    this.#state = "asleep";
    this.#holdProcess();
    this.#asleep = this.#host.close();
    return true;
  }

  #wake(): void {
    if (this.#state !== "asleep") return;
    this.#state = "restarting";
    this.#holdProcess();
    this.#awake = this.#asleep.then(() => (this.#isClosed() ? undefined : this.#startAgain()));
  }

  #isClosed(): boolean {
    return this.#state === "closed";
  }

  async close(): Promise<void> {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#idle.stop();
    for (const call of [...this.#calls.values()]) this.#failCall(call, this.#deathError());
    this.log.end();
    this.#rejectReplies();
    await this.#host.close();
  }

  #start(onProgress: OnProgress | null): Promise<void> {
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
        else if (message.type === "adapters") this.onAdapters(message.adapters);
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
      this.#replies.resolve(message.seq, message.value);
      this.#holdProcess();
      return;
    }
    const outputs = this.#outputs;
    outputs.open(message);
    if (message.step !== null) this.log.append(outputs.recordOf(message.step));
    while (outputs.next()) {
      const { call, note } = outputs;
      if (call === null || call.isOver) continue;
      call.reader.push(outputs);
      if (note.finishReason === "stop" || note.finishReason === "length") this.#restartsInARow = 0;
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
    void this.#startAgain();
  }

  /** What waits is asked of the new host. */
  #startAgain(): Promise<void> {
    return this.#start(null).then(
      () => {
        for (const call of this.#calls.values()) this.#host.post(call.message, call.editLogits ?? null);
      },
      () => undefined, // #onDeath has said so
    );
  }

  /** Nobody is left to answer. */
  #rejectReplies(): void {
    this.#replies.rejectAll(this.#deathError());
    this.#holdProcess();
  }

  #deathError(): EngineDeadError {
    return new EngineDeadError("engine_dead", { reason: this.#deathReason() });
  }

  #deathReason(): string {
    return this.#state === "closed" ? "it was closed." : (this.#lastError ?? "its thread ended.");
  }
}

const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * The engine's thread by itself does not keep the process alive: loading does, and calls and queries under way. So a program that forgets
 * close() still ends when its work is done.
 */
export class KeepAlive {
  #timer: NodeJS.Timeout | null = null;

  set(isBusy: boolean): void {
    if (isBusy) this.#timer ??= setInterval(() => undefined, MAX_TIMEOUT_MS);
    else {
      clearInterval(this.#timer ?? undefined);
      this.#timer = null;
    }
  }
}

interface Question {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

export /** Questions to the engine's thread that it has not answered yet. */
class Replies {
  readonly #open = new Map<number, Question>();
  #numAsked = 0;

  get isEmpty(): boolean {
    return this.#open.size === 0;
  }

  /** `post` sends the question under its number. */
  ask<T>(post: (seq: number) => void): Promise<T> {
    const seq = this.#numAsked++;
    return new Promise((resolve, reject) => {
      this.#open.set(seq, { resolve: resolve as (value: unknown) => void, reject });
      post(seq);
    });
  }

  resolve(seq: number, value: unknown): void {
    this.#open.get(seq)?.resolve(value);
    this.#open.delete(seq);
  }

  /** Nobody is left to answer. */
  rejectAll(error: Error): void {
    for (const question of this.#open.values()) question.reject(error);
    this.#open.clear();
  }
}
