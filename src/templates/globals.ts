// The functions every template knows.

import { bind, indexOr } from "./arguments.js";
import { TemplateError } from "./errors.js";
import { strftime } from "./format/strftime.js";
import { isTrue, iterate, toIndex } from "./values/semantics.js";
import { str } from "./values/show.js";
import { EMPTY, Text } from "./values/text.js";
import { type Arguments, Callable, Dict, Namespace, Opaque, Range, Undefined, type Value } from "./values/values.js";

const MAX_RANGE = 100_000;

function range(args: Arguments): Value {
  if (args.positional.length === 0) throw new TemplateError("range expected at least 1 argument, got 0");
  const [a, b, c] = bind("range", args, ["start", "stop", "step"]);
  const [start, stop] = b === undefined ? [0, toIndex(a!)] : [toIndex(a!), toIndex(b)];
  const step = indexOr(c, 1);
  if (step === 0) throw new TemplateError("range() arg 3 must not be zero");
  const made = new Range(start, stop, step);
  if (made.length > MAX_RANGE) {
    throw new TemplateError(`Range too big. The sandbox blocks ranges larger than MAX_RANGE (${MAX_RANGE}).`);
  }
  return made;
}

function dict(args: Arguments): Dict {
  const [source] = args.positional;
  const made = new Dict();
  if (source instanceof Dict) for (const [key, value] of source.entries()) made.set(key, value);
  else if (source !== undefined) {
    for (const pair of iterate(source)) {
      const [key, value] = [...iterate(pair)];
      if (key === undefined || value === undefined)
        throw new TemplateError("dictionary update sequence element needs length 2");
      made.set(key, value);
    }
  }
  for (const [name, value] of args.named) made.set(Text.own(name), value);
  return made;
}

function namespace(args: Arguments): Namespace {
  const made = new Namespace();
  for (const [key, value] of dict(args).entries()) made.attributes.set(str(key).s, value);
  return made;
}

class Cycler extends Opaque {
  readonly typeName = "Cycler";
  readonly #items: readonly Value[];
  #at = 0;

  constructor(items: readonly Value[]) {
    super();
    this.#items = items;
  }

  attribute(name: string): Value | undefined {
    const current = this.#items[this.#at % this.#items.length]!;
    if (name === "current") return current;
    if (name === "next") {
      return new Callable("next", () => this.#items[this.#at++ % this.#items.length]!);
    }
    if (name !== "reset") return undefined;
    return new Callable("reset", () => {
      this.#at = 0;
      return null;
    });
  }

  describe(): string {
    return "<Cycler>";
  }
}

function joiner(args: Arguments): Value {
  const [separator] = bind("joiner", args, ["sep"]);
  let isUsed = false;
  return new Callable("joiner", () => {
    if (isUsed) return separator === undefined ? Text.own(", ") : separator;
    isUsed = true;
    return EMPTY;
  });
}

export function makeGlobals(now: () => Date): readonly (readonly [string, Value])[] {
  const functions: readonly [string, (args: Arguments) => Value][] = [
    ["range", range],
    ["dict", dict],
    ["namespace", namespace],
    ["joiner", joiner],
    [
      "cycler",
      (args) => {
        if (args.positional.length === 0) throw new TemplateError("at least one item has to be provided");
        return new Cycler(args.positional);
      },
    ],
    [
      "raise_exception",
      (args) => {
        const [message] = bind("raise_exception", args, ["message"], 1);
        throw new TemplateError(
          message instanceof Undefined || !isTrue(message!) ? "the template refuses" : str(message!).s,
        );
      },
    ],
    [
      "strftime_now",
      (args) => {
        const [format] = bind("strftime_now", args, ["format"], 1);
        return Text.own(strftime(str(format!).s, now()));
      },
    ],
  ];
  return functions.map(([name, call]) => [name, new Callable(name, call)] as const);
}
