// Calls that wait for a place: the best first, by priority (lower is better), then by arrival.

export interface Waiting {
  readonly priority: number;
}

export class CallQueue<Call extends Waiting> {
  readonly #calls: Call[] = [];

  get size(): number {
    return this.#calls.length;
  }

  add(call: Call): void {
    let at = this.#calls.length;
    while (at > 0 && this.#calls[at - 1]!.priority > call.priority) at--;
    this.#calls.splice(at, 0, call);
  }

  remove(call: Call): void {
    const at = this.#calls.indexOf(call);
    if (at >= 0) this.#calls.splice(at, 1);
  }

  takeBest(): Call | undefined {
    return this.#calls.shift();
  }

  /** The one to be turned away first. */
  get worst(): Call | undefined {
    return this.#calls.at(-1);
  }
}
