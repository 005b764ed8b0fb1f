// Runs a core on the thread it is called from: takes messages between steps, steps while there is work, sends what came out.
// The same driver serves the worker thread and the in-process engine.

import type { PrefixJournal } from "../../cache/prefix-journal.js";
import type { LogitsHook } from "../../sampler/sampler.js";
import type { FromEngine, ToEngine } from "../messages.js";
import type { LoadedEngine } from "./load.js";

/** When every request waits for something outside, such as a grammar's next mask. */
const IDLE_MS = 1;
/** How long changes of what is cached are gathered for those who follow them. */
const PREFIXES_MS = 100;

export class EngineDriver {
  readonly #engine: LoadedEngine;
  readonly #send: (message: FromEngine) => void;
  readonly #compiling = new Set<string>(); // call ids
  #journal: PrefixJournal | null = null;
  #isTelling = false;
  #isScheduled = false;
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
        if (message.constraint !== null && compiler !== null) {
          // The request joins the queue once its grammar is compiled, unless it is aborted before.
          const { callId, client = "", constraint } = message;
          this.#compiling.add(callId);
          void compiler.ready(constraint, { client, isWanted: () => this.#compiling.has(callId) }).finally(() => {
            if (this.#compiling.delete(callId)) this.#add(() => core.add(message, editLogits));
          });
        } else this.#add(() => core.add(message, editLogits));
        break;
      case "abort":
        this.#compiling.delete(message.callId);
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
        const { prompt, salt, from, maxBytes } = message;
        this.#reply(message.seq, this.#engine.exchange.lend(prompt, salt, from, maxBytes));
        break;
      }
      case "take_pages":
        this.#reply(message.seq, this.#engine.exchange.take(message.prompt, message.salt, message.bytes));
        if (this.#journal?.isEmpty === false) this.#tellPrefixes();
        break;
      case "fault":
        if (message.where === "thread") throw new Error("injected fault of the engine thread");
        core.injectFault();
        break;
      case "close":
        this.#isClosed = true;
        core.stop();
        this.#engine.store?.save();
        core.close();
        break;
    }
  }

  #add(add: () => void): void {
    if (this.#isClosed) return;
    add();
    this.#wake();
  }

  #reply(seq: number, value: unknown): void {
    this.#send({ type: "reply", seq, value });
  }

  #answer({ what, rows }: Extract<ToEngine, { type: "query" }>): unknown {
    const { core } = this.#engine;
    if (what === "stats") return core.stats();
    return what === "cache" ? core.cacheSnapshot() : core.planOf(rows);
  }

  #wake(canMove = true): void {
    if (this.#isScheduled || this.#isClosed) return;
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
    const hasMoved = core.hasWork && core.step();
    const outputs = core.takeOutputs();
    const step = core.recorder.takeRecord();
    if (outputs.length > 0 || step !== null) this.#send({ type: "outputs", outputs, step });
    if (this.#journal?.isEmpty === false) this.#tellPrefixes();
    clock.mark("deliver");
    this.#isStepping = core.hasWork && hasMoved;
    if (core.hasWork) this.#wake(hasMoved);
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
