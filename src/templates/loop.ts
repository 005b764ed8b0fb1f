// The variable `loop`.

import { TemplateError } from "./errors.js";
import { equals } from "./values/semantics.js";
import { Callable, Opaque, Undefined, type Value } from "./values/values.js";

export class Loop extends Opaque {
  readonly typeName = "LoopContext";
  readonly #items: readonly Value[];
  readonly #depth: number;
  readonly #recurse: ((items: Value) => Value) | null;
  #lastChecked: readonly Value[] | null = null;
  index = 0;

  /** `recurse`: renders the loop again over other items; null where the loop is not recursive. */
  constructor(items: readonly Value[], depth: number, recurse: ((items: Value) => Value) | null) {
    super();
    this.#items = items;
    this.#depth = depth;
    this.#recurse = recurse;
  }

  call(items: Value): Value {
    if (this.#recurse === null)
      throw new TemplateError("The loop must have the 'recursive' marker to be called recursively.");
    return this.#recurse(items);
  }

  attribute(name: string): Value | undefined {
    const { index } = this;
    const { length } = this.#items;
    switch (name) {
      case "index":
        return BigInt(index + 1);
      case "index0":
        return BigInt(index);
      case "revindex":
        return BigInt(length - index);
      case "revindex0":
        return BigInt(length - index - 1);
      case "first":
        return index === 0;
      case "last":
        return index === length - 1;
      case "length":
        return BigInt(length);
      case "depth":
        return BigInt(this.#depth + 1);
      case "depth0":
        return BigInt(this.#depth);
      case "previtem":
        return index === 0 ? new Undefined("there is no previous item") : this.#items[index - 1];
      case "nextitem":
        return index + 1 < length ? this.#items[index + 1] : new Undefined("there is no next item");
      case "cycle":
        return new Callable("cycle", ({ positional }) => {
          if (positional.length === 0) throw new TemplateError("no items for cycling given");
          return positional[index % positional.length]!;
        });
      case "changed":
        return new Callable("changed", ({ positional }) => this.#hasChanged(positional));
      default:
        return undefined;
    }
  }

  describe(): string {
    return `<LoopContext ${this.index + 1}/${this.#items.length}>`;
  }

  #hasChanged(values: readonly Value[]): boolean {
    const before = this.#lastChecked;
    this.#lastChecked = values;
    return before === null || before.length !== values.length || values.some((value, i) => !equals(value, before[i]!));
  }
}
