// Rules of an EBNF grammar as they are collected, the quoting of its literals, and the few ways to put bodies together.

export class RuleSet {
  readonly #bodies = new Map<string, string>();
  readonly #made = new Map<string, string>(); // names, by what they were made of
  #size = 0;
  /** Work that may go into automata, over all of the grammar: a few tenths of a second. */
  readonly budget = { work: 2_000_000 };

  /** Characters of all bodies: what a limit on a caller's schema is checked against. */
  get size(): number {
    return this.#size;
  }

  has(name: string): boolean {
    return this.#bodies.has(name);
  }

  /** Defines a rule once; a shared one may be asked for again and keeps its first body. */
  define(name: string, body: string): string {
    if (!this.#bodies.has(name)) {
      this.#bodies.set(name, body);
      this.#size += body.length;
    }
    return name;
  }

  /** Gives a rule that was defined ahead of its body the body. */
  replace(name: string, body: string): void {
    this.#bodies.set(name, body);
    this.#size += body.length;
  }

  /** Defines a rule under a name of its own; a body that is a rule's name already, or a rule's body, needs none. */
  add(hint: string, body: string): string {
    if (this.#bodies.has(body)) return body;
    return this.once(body, () => this.define(this.freshName(hint), body));
  }

  /** What is made of the same twice is made once: three hundred integers are one rule. */
  once(key: string, make: () => string): string {
    let name = this.#made.get(key);
    if (name === undefined) {
      name = make();
      this.#made.set(key, name);
    }
    return name;
  }

  freshName(hint: string): string {
    return `${hint}_${this.#bodies.size}`;
  }

  toString(): string {
    return [...this.#bodies].map(([name, body]) => `${name} ::= ${body}`).join("\n");
  }
}

/** A literal: quotes, backslashes and everything that is not plain ASCII escaped. */
export function literal(text: string): string {
  let out = "";
  for (const char of text) {
    const code = char.codePointAt(0)!;
    out += isPlain(code) || char === " " ? char : escapeOf(code);
  }
  return `"${out}"`;
}

/** Letters and digits mean themselves everywhere; all else is escaped by number, so that no context can misread it. */
function isPlain(code: number): boolean {
  return (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
}

function escapeOf(code: number): string {
  return code > 0xffff ? `\\U${code.toString(16).padStart(8, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** `item{min,max}` in its shortest spelling; max null is no upper bound. */
export function repeat(item: string, min: number, max: number | null): string {
  if (max === 0) return '""';
  if (min === 1 && max === 1) return item;
  if (max === null) return min === 0 ? `${item}*` : min === 1 ? `${item}+` : `${item}{${min},}`;
  if (min === 0 && max === 1) return `${item}?`;
  return min === max ? `${item}{${min}}` : `${item}{${min},${max}}`;
}

export function anyOf(alternatives: readonly string[]): string {
  return alternatives.length === 1 ? alternatives[0]! : `(${alternatives.join(" | ")})`;
}
