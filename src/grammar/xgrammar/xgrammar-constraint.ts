// One answer under its grammar, as the engine sees it. Its masks come from a lane's thread through shared memory.

import { RequestError } from "../../core/errors.js";
import type { TokenConstraint } from "../constraint.js";
import type { Lane, LaneJob } from "./lane.js";
import { FAILED, HEADER, type ToMatcher } from "./matcher-messages.js";
import type { XGrammarCompiler } from "./xgrammar-compiler.js";

const SLOW_MASK_US = 20_000;
/** Masks that usually come faster are worth waiting for before a step is made. */
const QUICK_MASK_US = 1000;

/** When it cannot go on, asking for its mask throws, so that its request ends and no other. */
export class XGrammarConstraint implements TokenConstraint, LaneJob {
  readonly id: number;
  readonly #compiler: XGrammarCompiler;
  readonly #ebnf: string;
  readonly #param: string;
  readonly #shared: Int32Array; // see matcher-messages.ts
  readonly #stopIds: ReadonlySet<number>;
  readonly #accepted: number[] = [];
  #lane: Lane;
  #isDone = false;
  #reason = "no text of it can go on from here";

  constructor(
    compiler: XGrammarCompiler,
    id: number,
    ebnf: string,
    param: string,
    shared: Int32Array,
    stopIds: ReadonlySet<number>,
    lane: Lane,
  ) {
    this.id = id;
    this.#compiler = compiler;
    this.#ebnf = ebnf;
    this.#param = param;
    this.#shared = shared;
    this.#stopIds = stopIds;
    this.#lane = lane;
  }

  /** Before it is opened: its answer goes on from these tokens. */
  takeUp(accepted: ArrayLike<number>): void {
    for (let i = 0; i < accepted.length; i++) this.#accepted.push(accepted[i]!);
  }

  openMessage(): ToMatcher {
    return { type: "open", id: this.id, ebnf: this.#ebnf, tokens: this.#accepted, shared: this.#shared };
  }

  fail(reason: string): void {
    this.#reason = `one token: ${reason}`;
    Atomics.store(this.#shared, 0, FAILED);
  }

  isReady(): boolean {
    const version = Atomics.load(this.#shared, 0);
    return this.#isDone || version === FAILED || version === this.#accepted.length + 1;
  }

  /** Waits a moment for a mask that usually comes at once. */
  settle(ms: number): void {
    if (this.isReady() || this.#shared[1]! > QUICK_MASK_US) return;
    Atomics.wait(this.#shared, 0, Atomics.load(this.#shared, 0), ms);
  }

  fillMask(mask: Int32Array): boolean {
    if (this.#isDone) return false;
    this.#requireMask();
    mask.set(this.#shared.subarray(HEADER));
    return true;
  }

  accept(tokenId: number): boolean {
    if (this.#isDone) return false;
    this.#requireMask();
    if (((this.#shared[HEADER + (tokenId >> 5)]! >>> (tokenId & 31)) & 1) === 0) return false;
    this.#accepted.push(tokenId);
    this.#isDone = this.#stopIds.has(tokenId);
    if (this.#isDone) return true;
    if (this.#shared[1]! > SLOW_MASK_US && this.#lane !== this.#compiler.patient) this.#move(this.#compiler.patient);
    else this.#lane.send({ type: "accept", id: this.id, token: tokenId });
    return true;
  }

  isDone(): boolean {
    return this.#isDone;
  }

  fork(): TokenConstraint {
    if (this.#accepted.length > 0) throw new Error("only an answer that has not begun can be forked");
    this.#requireMask();
    return this.#compiler.open(this.#ebnf, this.#param, this.#lane, this.#shared);
  }

  dispose(): void {
    this.#lane.remove(this.id);
    this.#compiler.forget(this);
  }

  /** Opening it there replays what was accepted, the last token included. */
  #move(lane: Lane): void {
    this.#lane.remove(this.id);
    this.#lane = lane;
    lane.add(this.id, this);
  }

  /** The scheduler asks isReady() first; what is not ready here never will be. */
  #requireMask(): void {
    const version = Atomics.load(this.#shared, 0);
    if (version === this.#accepted.length + 1) return;
    throw new RequestError("invalid_grammar", { reason: this.#reason, param: this.#param });
  }
}
