// One answer under its grammar, as the engine sees it. Its masks come from a lane's thread through shared memory.

import { RequestError } from "../../core/errors.js";
import type { TokenConstraint } from "../constraint.js";
import type { Lane, LaneJob } from "./lane.js";
import { FAILED, HEADER, isLastOf, numWrittenOf, type ToMatcher } from "./matcher-messages.js";
import type { XGrammarCompiler } from "./xgrammar-compiler.js";

const SLOW_MASK_US = 20_000;
/** Masks that usually come faster are worth waiting for before a step is made. */
const QUICK_MASK_US = 1000;
const MAX_TICKET = 2 ** 24 - 1;
const NO_TICKET = -1;

/** When it cannot go on, asking for its mask throws, so that its request ends and no other. */
export class XGrammarConstraint implements TokenConstraint, LaneJob {
  readonly id: number;
  readonly #compiler: XGrammarCompiler;
  readonly #ebnf: string;
  readonly #param: string;
  readonly #shared: Int32Array; // see matcher-messages.ts
  readonly #stopIds: ReadonlySet<number>;
  readonly #accepted: number[] = [];
  /** The last of them that the matcher has not been told of: those before the last of a run. */
  #numUntold = 0;
  /** For the masks behind guesses; null: none were asked for yet. */
  #ahead: Int32Array | null = null;
  #ticket = 0;
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

  isQuick(): boolean {
    return this.#shared[1]! <= QUICK_MASK_US && this.#lane !== this.#compiler.patient;
  }

  /** Waits a moment for a mask that usually comes at once. */
  settle(ms: number): void {
    if (this.isReady() || this.#shared[1]! > QUICK_MASK_US) return;
    Atomics.wait(this.#shared, 0, Atomics.load(this.#shared, 0), ms);
  }

  fillMask(mask: Int32Array, numAhead = 0): boolean {
    if (this.#isDone) return false;
    this.#requireMask();
    const from = this.#maskAt(numAhead);
    mask.set((numAhead === 0 ? this.#shared : this.#ahead!).subarray(from, from + this.#numWords));
    return true;
  }

  accept(tokenId: number, isFollowed = false): boolean {
    if (this.#isDone) return false;
    this.#requireMask();
    const masks = this.#numUntold === 0 ? this.#shared : this.#ahead!;
    if (((masks[this.#maskAt(this.#numUntold) + (tokenId >> 5)]! >>> (tokenId & 31)) & 1) === 0) return false;
    this.#accepted.push(tokenId);
    this.#numUntold++;
    this.#isDone = this.#stopIds.has(tokenId);
    if (!this.#isDone && !isFollowed) this.#tell();
    return true;
  }

  foresee(tokens: Int32Array, first: number, count: number): void {
    this.#ticket = (this.#ticket + 1) & MAX_TICKET;
    // Masks that take long, or an answer that cannot go on: not worth waiting for.
    if (!this.isQuick() || !this.isReady() || this.#isDone) return;
    const numWords = HEADER + count * this.#numWords;
    if (this.#ahead === null || this.#ahead.length < numWords)
      this.#ahead = new Int32Array(new SharedArrayBuffer(4 * numWords));
    Atomics.store(this.#ahead, 1, this.#ticket);
    const guesses = Array.from(tokens.subarray(first, first + count));
    this.#lane.send({ type: "foresee", id: this.id, tokens: guesses, ahead: this.#ahead, ticket: this.#ticket });
  }

  numForeseen(): number {
    const ahead = this.#ahead;
    if (ahead === null || ahead[1] !== this.#ticket) return 0;
    let state = Atomics.load(ahead, 0);
    while (!isLastOf(state, this.#ticket)) {
      const ms = this.#compiler.patienceMs();
      if (ms <= 0) break;
      Atomics.wait(ahead, 0, state, ms);
      state = Atomics.load(ahead, 0);
    }
    Atomics.store(ahead, 1, NO_TICKET);
    return numWrittenOf(state, this.#ticket);
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

  get #numWords(): number {
    return this.#shared.length - HEADER;
  }

  #maskAt(numAhead: number): number {
    return HEADER + Math.max(0, numAhead - 1) * this.#numWords;
  }

  #tell(): void {
    const tokens = this.#accepted.slice(-this.#numUntold);
    this.#numUntold = 0;
    if (this.#shared[1]! > SLOW_MASK_US && this.#lane !== this.#compiler.patient) this.#move(this.#compiler.patient);
    else this.#lane.send({ type: "accept", id: this.id, tokens });
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
    if (version === this.#accepted.length - this.#numUntold + 1) return;
    throw new RequestError("invalid_grammar", { reason: this.#reason, param: this.#param });
  }
}
