// Finds stop strings in text that arrives in pieces, one pass, whatever the pieces are: each stop string has a
// Knuth-Morris-Pratt automaton whose state is how much of it the text ends with.

export class StopMatcher {
  readonly #stops: readonly string[];
  readonly #tables: readonly Int32Array[]; // per stop, [length] the state to fall back to from a mismatch at i
  readonly #states: Int32Array; // [stops] how many characters of the stop the text ends with

  constructor(stops: readonly string[]) {
    // Text is well-formed Unicode: an empty stop or one with half a surrogate pair can never be meant.
    this.#stops = stops.filter((stop) => stop !== "" && !/\p{Surrogate}/u.test(stop));
    this.#tables = this.#stops.map(failureTable);
    this.#states = new Int32Array(this.#stops.length);
  }

  get isEmpty(): boolean {
    return this.#stops.length === 0;
  }

  /** How many characters at the end of the text seen so far may be the beginning of a stop string. */
  get heldLen(): number {
    let held = 0;
    for (const state of this.#states) held = Math.max(held, state);
    return held;
  }

  /**
   * Goes on with `text`. Returns null, or the stop that ends first and where it ends in `text` (one past its last character);
   * of two that end together the longer one, so that what stands before it holds no part of either.
   */
  find(text: string): { stop: string; end: number } | null {
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      let found = "";
      for (let s = 0; s < this.#stops.length; s++) {
        const stop = this.#stops[s]!;
        const table = this.#tables[s]!;
        let state = this.#states[s]!;
        while (state > 0 && stop.charCodeAt(state) !== code) state = table[state - 1]!;
        if (stop.charCodeAt(state) === code) state++;
        this.#states[s] = state;
        if (state === stop.length && stop.length > found.length) found = stop;
      }
      if (found !== "") return { stop: found, end: i + 1 };
    }
    return null;
  }
}

/** table[i]: length of the longest proper prefix of `stop` that also ends stop[0..i]. */
function failureTable(stop: string): Int32Array {
  const table = new Int32Array(stop.length);
  let len = 0;
  for (let i = 1; i < stop.length; i++) {
    while (len > 0 && stop[i] !== stop[len]) len = table[len - 1]!;
    if (stop[i] === stop[len]) len++;
    table[i] = len;
  }
  return table;
}
