// Structured output by xgrammar, as the engine sees it. Matchers run in threads of their own, so that no grammar holds up a step:
//
//   checks[0]   makes and compiles a grammar, briefly     ok --> quick     answers whose masks come at once
//      '-- too slow --> checks[1]: longer                 ok --> patient   answers whose grammar or masks take long
//                          '-- too slow --> checks[2]           ^-- an answer of `quick` that turns out slow
//                                 '-- too slow: refused
//
// Each lane is a thread that starts with its first job and is replaced when a message takes longer than the lane allows. What is
// cheap never stands behind what is dear for long, and the dearer a grammar, the less of the processor it gets while others want it.

import { errorFor } from "../../core/errors.js";
import { RecentMap } from "../../core/recent-map.js";
import type { ThreadClass } from "../../threads/thread-class.js";
import type { Asker, ConstraintCompiler, ConstraintSpec, TokenConstraint } from "../constraint.js";
import { CheckQueue } from "./check-queue.js";
import { Lane } from "./lane.js";
import { HEADER, type Verdict } from "./matcher-messages.js";
import { type PackedTexts, packTexts, type TokenTexts } from "./token-texts.js";
import { XGrammarConstraint } from "./xgrammar-constraint.js";

/** In time of the lane's own thread, where the system tells it. */
const LIMITS = { checkMs: checkLimits(5000), quickMaskMs: 1000, patientMaskMs: 2500 };
/** A grammar that took longer to compile is followed in the patient lane. */
const SLOW_COMPILE_MS = 50;
const ANYBODY: Asker = { client: "", isWanted: () => true };
/** For masks of a step that are about to come, and as much again for those behind guesses. */
const SETTLE_MS = 1;
const MAX_REMEMBERED = 256;
/** Of threads that may compute for long: the engine's own go first where cores are few. */
const CHECK_TURNS: readonly ThreadClass[] = ["background", "idle", "idle"];
/** Lanes with none behind them end what they hold for its own time; that a busy machine gives them little is nobody's fault. */
const LAST_WAIT_MS = 60_000;

/** How long each try to compile a grammar may take, when the last one may take so long. */
export function checkLimits(maxMs: number): readonly number[] {
  return [...[200, 1000].filter((ms) => ms < maxMs), maxMs];
}

export class XGrammarCompiler implements ConstraintCompiler {
  readonly #vocabularyOf: () => TokenTexts;
  #vocabulary: PackedTexts | null = null;
  #stopIds: ReadonlySet<number> = new Set();
  readonly #lanes: Readonly<Record<"quick" | "patient", Lane>>;
  readonly #checks: readonly CheckQueue[];
  /** Grammars that are being checked, by kind and source. */
  readonly #checking = new Map<string, Checking>();
  readonly #maxCheckMs: number;
  readonly #live = new Set<XGrammarConstraint>();
  /** By kind and source, least recently asked for first. */
  readonly #verdicts = new RecentMap<string, Verdict>(MAX_REMEMBERED);
  #numIds = 0;
  /** Nobody has waited for masks behind guesses since the step began. */
  #isPatient = false;
  #patienceEndMs = 0;

  /** The vocabulary is asked for when the first constraint is. */
  constructor(vocabularyOf: () => TokenTexts, limits: Partial<typeof LIMITS> = {}) {
    const { checkMs, quickMaskMs, patientMaskMs } = { ...LIMITS, ...limits };
    this.#vocabularyOf = vocabularyOf;
    this.#maxCheckMs = checkMs.at(-1)!;
    const packed = () => this.#packed();
    const waitMs = (i: number) => (i === checkMs.length - 1 ? LAST_WAIT_MS : undefined);
    this.#checks = checkMs.map((ms, i) => new CheckQueue(new Lane(packed, ms, CHECK_TURNS[i], waitMs(i))));
    this.#lanes = {
      quick: new Lane(packed, quickMaskMs),
      patient: new Lane(packed, patientMaskMs, "idle", LAST_WAIT_MS),
    };
  }

  async ready(spec: ConstraintSpec, asker: Asker = ANYBODY): Promise<void> {
    const key = keyOf(spec);
    while (!this.#verdicts.has(key)) {
      if (!asker.isWanted()) return;
      await this.#checkOnce(key, spec, asker);
    }
    this.#verdicts.set(key, this.#verdicts.get(key)!); // what is asked for again is kept longer
  }

  /** Whoever asks for a grammar that is being checked waits for the same check. */
  #checkOnce(key: string, spec: ConstraintSpec, asker: Asker): Promise<void> {
    const known = this.#checking.get(key);
    if (known !== undefined) {
      known.askers.push(asker);
      return known.done;
    }
    const askers = [asker];
    const isWanted = (): boolean => askers.some((other) => other.isWanted());
    const done = this.#check(spec, { client: asker.client, isWanted }).then((verdict) => {
      this.#checking.delete(key);
      if (verdict !== null) this.#verdicts.set(key, verdict);
    });
    this.#checking.set(key, { askers, done });
    return done;
  }

  compile(spec: ConstraintSpec, accepted: ArrayLike<number> = []): TokenConstraint {
    const verdict = this.#verdicts.get(keyOf(spec));
    if (verdict === undefined) throw new Error("a constraint was compiled before it was ready");
    const { param = "constraint" } = spec;
    if (!verdict.ok) throw errorFor(verdict.code, { param, ...verdict.details });
    const lane = verdict.ms > SLOW_COMPILE_MS ? "patient" : "quick";
    return this.open(verdict.ebnf, param, this.#lanes[lane], null, accepted);
  }

  /** Starts the threads that a usual grammar needs: they take a quarter of a second, mostly of compiling the matcher. */
  warm(): void {
    this.#checks[0]!.lane.warm();
    this.#lanes.quick.warm();
  }

  settle(): void {
    const endMs = performance.now() + SETTLE_MS;
    this.#isPatient = true;
    for (const constraint of this.#live) {
      const leftMs = endMs - performance.now();
      if (leftMs <= 0) return;
      constraint.settle(leftMs);
    }
  }

  /** How long masks behind guesses of this step may still be waited for. */
  patienceMs(): number {
    const nowMs = performance.now();
    if (this.#isPatient) this.#patienceEndMs = nowMs + SETTLE_MS;
    this.#isPatient = false;
    return this.#patienceEndMs - nowMs;
  }

  close(): void {
    for (const { lane } of this.#checks) lane.close();
    this.#lanes.quick.close();
    this.#lanes.patient.close();
    this.#live.clear();
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
    this.#live.add(constraint);
    lane.add(constraint.id, constraint);
    return constraint;
  }

  get patient(): Lane {
    return this.#lanes.patient;
  }

  forget(constraint: XGrammarConstraint): void {
    this.#live.delete(constraint);
  }

  /** Test hook: as if the threads that follow answers had hung, on nothing in particular. */
  restart(): void {
    this.#lanes.quick.restart(-1, "");
    this.#lanes.patient.restart(-1, "");
  }

  /** null: nobody waits for it any more. */
  async #check(spec: ConstraintSpec, asker: Asker): Promise<Verdict | null> {
    for (const queue of this.#checks) {
      const result = await queue.check(this.#numIds++, spec, asker);
      if (result === "unwanted") return null;
      if (result !== "too slow") return result;
    }
    return refusal(`it takes longer than ${this.#maxCheckMs / 1000} s to compile`);
  }

  #packed(): PackedTexts {
    if (this.#vocabulary === null) {
      this.#vocabulary = packTexts(this.#vocabularyOf());
      this.#stopIds = new Set(this.#vocabulary.stopIds);
    }
    return this.#vocabulary;
  }
}

interface Checking {
  readonly askers: Asker[];
  readonly done: Promise<void>;
}

function keyOf(spec: ConstraintSpec): string {
  return `${spec.kind} ${spec.source}`;
}

function refusal(reason: string): Verdict {
  return { ok: false, code: "invalid_grammar", details: { reason } };
}
