// Runs a core on the thread it is called from: takes messages between steps, steps while there is work, sends what came out.
// The same driver serves the worker thread and the in-process engine.

import type { AdapterRef } from "../../adapters/adapter.js";
import type { HeldAdapter } from "../../adapters/adapter-pool.js";
import type { PrefixJournal } from "../../cache/prefix-journal.js";

import { errorFor } from "../../core/errors.js";
import type { LogitsHook } from "../../sampler/sampler.js";
import { type AddMessage, type EngineStats, type FromEngine, type Loaded, type ToEngine, toWire } from "../messages.js";
import type { LoadedEngine } from "./load/load.js";
import type { PagesTaken } from "./pages/page-exchange.js";

/** When every request waits for something outside, such as a grammar's next mask. */
const IDLE_MS = 1;
/** How long changes of what is cached are gathered for those who follow them. */
const PREFIXES_MS = 100;

/** Of a device whose pages cannot be read: its engine neither lends nor takes. */
const NO_PAGES = new Uint8Array(0);
const NONE_TAKEN: PagesTaken = { numTaken: 0, reason: "this device's pages cannot be read or replaced" };

export class EngineDriver {
  readonly #engine: LoadedEngine;
  readonly #send: (message: FromEngine) => void;
  /** Calls whose grammar or adapter is on its way, by id. */
  readonly #preparing = new Set<string>();
  #journal: PrefixJournal | null = null;
  #isTelling = false;
  #isScheduled = false;
  /** Flights are awaited; the next step follows by itself. */
  #isLanding = false;
  #hasMoved = false;
  /** The next step follows at once: what lies between is the thread's work. */
  #isStepping = false;
  #isClosed = false;

  constructor(engine: LoadedEngine, send: (message: FromEngine) => void) {
    this.#engine = engine;
    this.#send = send;
  }

  handle(message: ToEngine, editLogits: LogitsHook | null = null): void {
    if (this.#isClosed) return;
    const { core, compiler } = this.#engine;
    switch (message.type) {
      case "add":
        if (message.adapter === undefined && (message.constraint === null || compiler === null))
          this.#add(() => core.add(message, editLogits));
        else void this.#prepare(message, editLogits);
        break;
      case "abort":
        this.#preparing.delete(message.callId);
        core.abort(message.callId, message.index);
        this.#wake();
        break;
      case "warm":
        compiler?.warm();
        break;
      case "query":
        this.#reply(message.seq, this.#answer(message));
        break;
      case "watch_prefixes":
        this.#journal = this.#engine.cache.openJournal();
        this.#sendPrefixes(true);
        break;
      case "lend_pages": {
        const { prompt, salt, from, maxBytes, media } = message;
        this.#reply(message.seq, this.#engine.exchange?.lend(prompt, salt, from, maxBytes, media) ?? NO_PAGES);
        break;
      }
      case "take_pages": {
        const { prompt, salt, bytes, media } = message;
        this.#reply(message.seq, this.#engine.exchange?.take(prompt, salt, bytes, media) ?? NONE_TAKEN);
        if (this.#journal?.isEmpty === false) this.#tellPrefixes();
        break;
      }
      case "load_adapter":
        void this.#loadAdapter(message.seq, message.adapter);
        break;
      case "unload_adapter":
        this.#engine.adapters.unload(message.name);
        this.#reply(message.seq, null);
        break;
      case "fault":
        if (message.where === "thread") throw new Error("injected fault of the engine thread");
        core.injectFault();
        break;
      case "close":
        this.#isClosed = true;
        core.stop();
        this.#afterLanding(this.#close);
        break;
    }
  }

  /** The call joins the queue once its adapter is loaded and its grammar compiled, unless it is aborted before. Others do not wait for it. */
  async #prepare(message: AddMessage, editLogits: LogitsHook | null): Promise<void> {
    const { core, compiler, adapters } = this.#engine;
    const { callId, client = "", constraint, adapter } = message;
    const isWanted = () => this.#preparing.has(callId);
    this.#preparing.add(callId);
    let held: HeldAdapter | null = null;
    try {
      if (constraint !== null && constraint.kind !== "any")
        await compiler?.ready(constraint, { client, isWanted }).catch(() => undefined); // core.add says why
      if (adapter !== undefined) held = await adapters.acquire(adapter);
    } catch (error) {
      if (this.#preparing.delete(callId)) this.#add(() => core.failCall(callId, error));
      return;
    }
    if (this.#preparing.delete(callId) && !this.#isClosed) this.#add(() => core.add(message, editLogits, held));
    else held?.release();
  }

  async #loadAdapter(seq: number, adapter: AdapterRef): Promise<void> {
    try {
      const held = await this.#engine.adapters.acquire(adapter);
      held.release();
      this.#reply(seq, { facts: held.facts } satisfies Loaded);
    } catch (error) {
      this.#reply(seq, { error: toWire(error, "file_corrupt") } satisfies Loaded);
    }
  }

  /** At once where the device can block. */
  #afterLanding(next: () => void): void {
    const landing = this.#engine.core.landing();
    if (landing === null) next();
    else void landing.then(next);
  }

  readonly #close = (): void => {
    const { core, store, adapters } = this.#engine;
    core.commit();
    adapters.close();
    store?.save();
    core.close();
  };

  #add(add: () => void): void {
    if (this.#isClosed) return;
    add();
    this.#wake();
  }

  #reply(seq: number, value: unknown): void {
    this.#send({ type: "reply", seq, value });
  }

  #answer({ what, rows }: Extract<ToEngine, { type: "query" }>): unknown {
    const { core, adapters } = this.#engine;
    if (what === "stats") return { ...core.stats(), ...adapters.stats() } satisfies EngineStats;
    return what === "cache" ? core.cacheSnapshot() : core.planOf(rows);
  }

  #wake(canMove = true): void {
    if (this.#isScheduled || this.#isClosed || this.#isLanding) return;
    this.#isScheduled = true;
    // setImmediate lets messages that arrived during the step in before the next one.
    if (canMove) setImmediate(this.#tick);
    else setTimeout(this.#tick, IDLE_MS);
  }

  readonly #tick = (): void => {
    this.#isScheduled = false;
    if (this.#isClosed) return;
    const { core } = this.#engine;
    const { clock } = core.recorder;
    if (this.#isStepping) clock.mark("loop");
    else clock.begin();
    this.#hasMoved = core.hasWork && core.launch();
    this.#isLanding = true;
    this.#afterLanding(this.#finishStep);
  };

  readonly #finishStep = (): void => {
    this.#isLanding = false;
    if (this.#isClosed) return; // it commits what is left
    const { core, adapters } = this.#engine;
    const { clock } = core.recorder;
    const hasMoved = this.#hasMoved;
    core.commit();
    core.encodePictures();
    adapters.settle();
    const outputs = core.takeOutputs();
    if (outputs !== null) this.#send(outputs);
    if (core.isDeviceLost) {
      this.#isClosed = true;
      core.close();
      this.#send({ type: "dead", error: toWire(errorFor("device_lost", { device: core.deviceName }), "engine_dead") });
      return;
    }
    if (this.#journal?.isEmpty === false) this.#tellPrefixes();
    clock.mark("deliver");
    this.#isStepping = core.hasWork && hasMoved;
    if (core.hasWork) this.#wake(hasMoved || core.canEncode);
  };

  /** Changes of a tenth of a second go out together. */
  #tellPrefixes(): void {
    if (this.#isTelling) return;
    this.#isTelling = true;
    setTimeout(() => {
      this.#isTelling = false;
      if (!this.#isClosed) this.#sendPrefixes(false);
    }, PREFIXES_MS).unref();
  }

  #sendPrefixes(isSnapshot: boolean): void {
    const changes = this.#journal?.take() ?? new Int32Array(0);
    this.#send({ type: "prefixes", change: { isSnapshot, changes } });
  }
}
