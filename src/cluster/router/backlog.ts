// Calls that have not begun, by priority. What a new call waits for, and whom it may displace, follows from it: those that are worse do
// not stand in its way.

/** Priority (lower is served first), calls, and the prompt tokens they are expected to compute. */
export type Queued = readonly (readonly [priority: number, count: number, tokens: number])[];

/** The calls that a call would be served before, and the tokens that are computed before its own. */
export interface Seen {
  readonly numWorse: number;
  readonly tokensAhead: number;
}

const NONE: Seen = { numWorse: 0, tokensAhead: 0 };

export class Backlog {
  readonly #levels = new Map<number, { count: number; tokens: number }>();

  add(priority: number, tokens: number): void {
    this.#change(priority, 1, tokens);
  }

  remove(priority: number, tokens: number): void {
    this.#change(priority, -1, -tokens);
  }

  /** What is queued here and not in `part`, which was counted at another time. */
  without(part: Queued): Backlog {
    const less = new Map(part.map(([priority, count, tokens]) => [priority, { count, tokens }]));
    const rest = this.list().map(([priority, count, tokens]) => {
      const { count: lessCount = 0, tokens: lessTokens = 0 } = less.get(priority) ?? {};
      return [priority, Math.max(0, count - lessCount), Math.max(0, tokens - lessTokens)] as const;
    });
    return Backlog.of(rest);
  }

  list(): Queued {
    return [...this.#levels].map(([priority, { count, tokens }]) => [priority, count, tokens]);
  }

  /** As a call of this priority sees it. */
  seenBy(priority: number): Seen {
    if (this.#levels.size === 0) return NONE;
    let numWorse = 0;
    let tokensAhead = 0;
    for (const [other, { count, tokens }] of this.#levels) {
      if (other > priority) numWorse += count;
      else tokensAhead += tokens;
    }
    return { numWorse, tokensAhead };
  }

  static of(queued: Queued): Backlog {
    const backlog = new Backlog();
    for (const [priority, count, tokens] of queued) backlog.#change(priority, count, tokens);
    return backlog;
  }

  #change(priority: number, count: number, tokens: number): void {
    const level = this.#levels.get(priority) ?? { count: 0, tokens: 0 };
    level.count += count;
    level.tokens += tokens;
    if (level.count === 0) this.#levels.delete(priority);
    else this.#levels.set(priority, level);
  }
}
