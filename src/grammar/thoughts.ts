// Thoughts before an answer that is bound: free until the token that ends them, which is forced once their budget is spent. Behind it
// the answer goes on under its own constraint, or freely.
//
//   begin     maybe: `open`, or the answer at once     always: `open` alone
//     |
//   opening   the rest of `open`, one token after another
//     |
//   thinking  anything but the end of the answer; only `close` when the budget is spent
//     |
//   after     one token after another
//     |
//   answer    as the constraint has it

import type { ConstraintCompiler, ConstraintSpec, ThoughtsSpec, TokenConstraint } from "./constraint.js";

/** An answer under what `spec` says, taken up after the tokens that it has already. After compiler.ready(). */
export function openConstraint(
  compiler: ConstraintCompiler,
  spec: ConstraintSpec,
  accepted: ArrayLike<number>,
  stopIds: Int32Array,
): TokenConstraint | null {
  const { kind, thoughts } = spec;
  const place = new ThoughtPlace(thoughts ?? null);
  let numBefore = 0;
  while (numBefore < accepted.length && place.take(accepted[numBefore]!)) numBefore++;
  const rest = Array.from(accepted).slice(numBefore);
  const answer = kind === "any" ? null : compiler.compile(spec, rest);
  return thoughts === undefined ? answer : new ThoughtGate(thoughts, place, answer, stopIds);
}

type Place = "begin" | "opening" | "thinking" | "after" | "answer";

/** Where in its thoughts an answer is. */
class ThoughtPlace {
  readonly #spec: ThoughtsSpec | null;
  at: Place;
  /** Tokens of this place that there are already. */
  count = 0;

  constructor(spec: ThoughtsSpec | null) {
    this.#spec = spec;
    this.at = spec === null ? "answer" : spec.begin === "open" ? "thinking" : "begin";
  }

  /** The one token that may come, where there is only one; -1: others may too. */
  forced(numAhead: number): number {
    const { begin, open, close, after, budget } = this.#spec!;
    switch (this.at) {
      case "begin":
        return begin === "always" ? open[0]! : -1;
      case "opening":
        return open[this.count]!;
      case "thinking":
        return budget !== null && this.count + numAhead >= budget ? close : -1;
      case "after":
        return after[this.count]!;
      case "answer":
        return -1;
    }
  }

  /** Goes on by a token; false: it is one of the answer. */
  take(token: number): boolean {
    if (this.#spec === null || this.at === "answer") return false;
    const { open, close, after } = this.#spec;
    if (this.at === "begin" && token !== open[0]) {
      this.at = "answer";
      return false;
    }
    this.count++;
    if (this.at === "begin") this.at = "opening";
    if (this.at === "opening" && this.count === open.length) this.#enter("thinking");
    else if (this.at === "thinking" && token === close) this.#enter(after.length > 0 ? "after" : "answer");
    else if (this.at === "after" && this.count === after.length) this.#enter("answer");
    return true;
  }

  #enter(place: Place): void {
    this.at = place;
    this.count = 0;
  }
}

class ThoughtGate implements TokenConstraint {
  readonly #spec: ThoughtsSpec;
  readonly #place: ThoughtPlace;
  /** null: any text. */
  readonly #answer: TokenConstraint | null;
  readonly #stopIds: Int32Array;
  #numForeseen = 0;

  constructor(spec: ThoughtsSpec, place: ThoughtPlace, answer: TokenConstraint | null, stopIds: Int32Array) {
    this.#spec = spec;
    this.#place = place;
    this.#answer = answer;
    this.#stopIds = stopIds;
  }

  isReady(): boolean {
    const { at } = this.#place;
    const asksAnswer = at === "answer" || (at === "begin" && this.#spec.begin === "maybe");
    return !asksAnswer || this.#answer === null || this.#answer.isReady();
  }

  isQuick(): boolean {
    return this.#answer === null || this.#answer.isQuick?.() === true;
  }

  fillMask(mask: Int32Array, numAhead = 0): boolean {
    const { at } = this.#place;
    if (at === "answer") return this.#answer?.fillMask(mask, numAhead) ?? false;
    const forced = this.#place.forced(numAhead);
    if (forced >= 0) {
      mask.fill(0);
      allow(mask, forced);
      return true;
    }
    if (this.#answer === null) return false;
    if (at === "begin") {
      if (!this.#answer.fillMask(mask)) return false;
      allow(mask, this.#spec.open[0]!);
      return true;
    }
    mask.fill(-1);
    for (const id of this.#stopIds) mask[id >> 5]! &= ~(1 << (id & 31));
    return true;
  }

  accept(tokenId: number, isFollowed = false): boolean {
    const { at } = this.#place;
    const forced = at === "answer" ? -1 : this.#place.forced(0);
    if (forced >= 0 && tokenId !== forced) return false;
    if (this.#place.take(tokenId)) return true;
    return this.#answer?.accept(tokenId, isFollowed) ?? true;
  }

  /** In thoughts every guess may come, up to the token that ends them. */
  foresee(tokens: Int32Array, first: number, count: number): void {
    const { at } = this.#place;
    this.#numForeseen = 0;
    if (at === "answer") {
      if (this.#answer === null) this.#numForeseen = count;
      else this.#answer.foresee?.(tokens, first, count);
    } else if (at === "thinking") {
      while (this.#numForeseen < count && this.#isThought(tokens[first + this.#numForeseen]!)) this.#numForeseen++;
    }
  }

  #isThought(token: number): boolean {
    if (token === this.#spec.close || this.#place.forced(this.#numForeseen) >= 0) return false;
    return this.#answer === null || !this.#stopIds.includes(token);
  }

  numForeseen(): number {
    if (this.#place.at !== "answer" || this.#answer === null) return this.#numForeseen;
    return this.#answer.numForeseen?.() ?? 0;
  }

  isDone(): boolean {
    return this.#place.at === "answer" && this.#answer !== null && this.#answer.isDone();
  }

  fork(): TokenConstraint {
    if (this.#place.count > 0) throw new Error("only an answer that has not begun can be forked");
    return new ThoughtGate(this.#spec, new ThoughtPlace(this.#spec), this.#answer?.fork() ?? null, this.#stopIds);
  }

  dispose(): void {
    this.#answer?.dispose();
  }
}

function allow(mask: Int32Array, id: number): void {
  mask[id >> 5]! |= 1 << (id & 31);
}
