// Structured output by xgrammar, as the engine sees it. Matchers run in threads of their own, so that no grammar holds up a step:
//
//   check      makes and compiles a grammar, briefly      ok --> quick     answers whose masks come at once
//      '-- too slow --> check again, patiently            ok --> patient   answers whose grammar or masks take long
//                          '-- too slow: refused                ^-- an answer of `quick` that turns out slow
//
// Each lane is a thread that starts with its first job and is replaced when a message takes longer than the lane allows.

import { errorFor, RequestError } from "../../core/errors.js";
import type { ConstraintCompiler, ConstraintSpec, TokenConstraint } from "../constraint.js";
import { Lane, type LaneJob } from "./lane.js";
import { FAILED, HEADER, type ToMatcher, type Verdict } from "./matcher-messages.js";
import { type PackedTexts, packTexts, type TokenTexts } from "./token-texts.js";

const LIMITS = { quickCheckMs: 500, patientCheckMs: 5000, quickMaskMs: 1000, patientMaskMs: 2500 };
/** A grammar that took longer to compile is followed in the patient lane. */
const SLOW_COMPILE_MS = 100;
const SLOW_MASK_US = 20_000;
/** Masks that usually come faster are worth waiting for before a step is made. */
const QUICK_MASK_US = 1000;
const SETTLE_MS = 1;
const MAX_REMEMBERED = 256;
/** Of threads that may compute for long: the engine's own go first where cores are few. */
const PATIENT_NICENESS = 5;

export class XGrammarCompiler implements ConstraintCompiler {
  readonly #vocabularyOf: () => TokenTexts;
  #vocabulary: PackedTexts | null = null;
  #stopIds: ReadonlySet<number> = new Set();
  readonly #lanes: Readonly<Record<"quickCheck" | "patientCheck" | "quick" | "patient", Lane>>;
  readonly #patientCheckMs: number;
  readonly #live: XGrammarConstraint[] = [];
  /** By kind and source, least recently asked for first. */
  readonly #verdicts = new Map<string, Verdict>();
  #numIds = 0;

  /** The vocabulary is asked for when the first constraint is. */
  constructor(vocabularyOf: () => TokenTexts, limits: Partial<typeof LIMITS> = {}) {
    const { quickCheckMs, patientCheckMs, quickMaskMs, patientMaskMs } = { ...LIMITS, ...limits };
    this.#vocabularyOf = vocabularyOf;
    this.#patientCheckMs = patientCheckMs;
    const packed = () => this.#packed();
    this.#lanes = {
      quickCheck: new Lane(packed, quickCheckMs, PATIENT_NICENESS),
      patientCheck: new Lane(packed, patientCheckMs, PATIENT_NICENESS),
      quick: new Lane(packed, quickMaskMs, 0),
      patient: new Lane(packed, patientMaskMs, PATIENT_NICENESS),
    };
  }

  async ready(spec: ConstraintSpec): Promise<void> {
    const key = keyOf(spec);
    const verdict =
      this.#verdicts.get(key) ??
      (await this.#check(this.#lanes.quickCheck, spec)) ??
      (await this.#check(this.#lanes.patientCheck, spec)) ??
      refusal(`it takes longer than ${this.#patientCheckMs / 1000} s to compile`);
    this.#verdicts.delete(key); // what is asked for again moves to the end
    this.#verdicts.set(key, verdict);
    if (this.#verdicts.size > MAX_REMEMBERED) this.#verdicts.delete(this.#verdicts.keys().next().value!);
  }

  compile(spec: ConstraintSpec, accepted: ArrayLike<number> = []): TokenConstraint {
    const verdict = this.#verdicts.get(keyOf(spec));
    if (verdict === undefined) throw new Error("a constraint was compiled before it was ready");
    const { param = "constraint" } = spec;
    if (!verdict.ok) throw errorFor(verdict.code, { param, ...verdict.details });
    const lane = verdict.ms > SLOW_COMPILE_MS ? "patient" : "quick";
    return this.open(verdict.ebnf, param, this.#lanes[lane], null, accepted);
  }

  settle(): void {
    const endMs = performance.now() + SETTLE_MS;
    for (let i = 0; i < this.#live.length; i++) {
      const leftMs = endMs - performance.now();
      if (leftMs <= 0) return;
      this.#live[i]!.settle(leftMs);
    }
  }

  close(): void {
    for (const lane of Object.values(this.#lanes)) lane.close();
    this.#live.length = 0;
  }

  /** Begins an answer. `first`: its first mask, where it is known. */
  open(
    ebnf: string,
    param: string,
    lane: Lane,
    first: Int32Array | null,
    accepted: ArrayLike<number> = [],
  ): XGrammarConstraint {
    const numWords = Math.ceil((this.#packed().offsets.length - 1) / 32);
    const shared = new Int32Array(new SharedArrayBuffer(4 * (HEADER + numWords)));
    if (first !== null) shared.set(first);
    const constraint = new XGrammarConstraint(this, this.#numIds++, ebnf, param, shared, this.#stopIds, lane);
    constraint.takeUp(accepted);
    this.#live.push(constraint);
    lane.add(constraint.id, constraint);
    return constraint;
  }

  get patient(): Lane {
    return this.#lanes.patient;
  }

  forget(constraint: XGrammarConstraint): void {
    const at = this.#live.indexOf(constraint);
    if (at < 0) return;
    this.#live[at] = this.#live.at(-1)!;
    this.#live.pop();
  }

  /** Test hook: as if the threads that follow answers had hung, on nothing in particular. */
  restart(): void {
    this.#lanes.quick.restart(-1, "");
    this.#lanes.patient.restart(-1, "");
  }

  /** null: it took longer than the lane allows. */
  #check(lane: Lane, spec: ConstraintSpec): Promise<Verdict | null> {
    return new Promise((resolve) => {
      const id = this.#numIds++;
      lane.add(id, {
        openMessage: () => ({ type: "check", id, spec }),
        fail: () => resolve(null),
        answer: resolve,
      });
    });
  }

  #packed(): PackedTexts {
    if (this.#vocabulary === null) {
      this.#vocabulary = packTexts(this.#vocabularyOf());
      this.#stopIds = new Set(this.#vocabulary.stopIds);
    }
    return this.#vocabulary;
  }
}

function keyOf(spec: ConstraintSpec): string {
  return `${spec.kind} ${spec.source}`;
}

function refusal(reason: string): Verdict {
  return { ok: false, code: "invalid_grammar", details: { reason } };
}

/** One answer. When it cannot go on, asking for its mask throws, so that its request ends and no other. */
class XGrammarConstraint implements TokenConstraint, LaneJob {
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
