// Names and their values: the template's own frame, one for each turn of a loop, each call of a macro, each captured block.

import { Undefined, type Value } from "./values/values.js";

export class Scope {
  readonly #names = new Map<string, Value>();
  readonly #parent: Scope | null;

  constructor(parent: Scope | null) {
    this.#parent = parent;
  }

  get root(): Scope {
    return this.#parent === null ? this : this.#parent.root;
  }

  set(name: string, value: Value): void {
    this.#names.set(name, value);
  }

  get(name: string): Value {
    for (let scope: Scope | null = this; scope !== null; scope = scope.#parent) {
      const value = scope.#names.get(name);
      if (value !== undefined) return value;
    }
    return new Undefined(`'${name}' is undefined`);
  }
}
