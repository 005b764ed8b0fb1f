// Runs a parsed template.

import { type Budget, TemplateError } from "./errors.js";
import type { FilterContext } from "./filters/filter.js";
import { FILTERS } from "./filters/filters.js";
import { whyNoFilter } from "./filters/refused-filters.js";
import { runTest } from "./filters/tests.js";
import { Loop } from "./loop.js";
import { Scope } from "./scope.js";
import type { CallArgs, Expr, ForNode, Node, Signature, Target } from "./syntax/nodes.js";
import { getAttribute, getItem, getSlice } from "./values/methods.js";
import { binary, comparison, concatenate, unary } from "./values/operators.js";
import { isTrue, iterate } from "./values/semantics.js";
import { str } from "./values/show.js";
import { Text } from "./values/text.js";
import {
  type Arguments,
  Callable,
  Dict,
  List,
  Namespace,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "./values/values.js";

const MAX_CALL_DEPTH = 200;

type Flow = "next" | "break" | "continue";

export class Evaluator implements FilterContext {
  readonly budget: Budget;
  #callDepth = 0;

  constructor(budget: Budget) {
    this.budget = budget;
  }

  /** Runs the nodes; what they show goes to the end of `out`. */
  run(nodes: readonly Node[], scope: Scope, out: Text[]): Flow {
    for (const node of nodes) {
      const flow = this.#runNode(node, scope, out);
      if (flow !== "next") return flow;
    }
    return "next";
  }

  capture(nodes: readonly Node[], scope: Scope): Text {
    const out: Text[] = [];
    this.run(nodes, scope, out);
    return Text.join(out);
  }

  lookup(value: Value, key: string, isItem: boolean): Value {
    if (!isItem) return getAttribute(value, key, this);
    return getItem(value, /^\d+$/.test(key) ? BigInt(key) : Text.own(key), this);
  }

  callFilter(name: string, value: Value, args: Arguments): Value {
    const filter = FILTERS.get(name);
    if (filter === undefined) throw new TemplateError(whyNoFilter(name));
    return filter(value, args, this);
  }

  callTest(name: string, value: Value, args: Arguments): boolean {
    return runTest(name, value, args);
  }

  #runNode(node: Node, scope: Scope, out: Text[]): Flow {
    this.budget.step();
    switch (node.kind) {
      case "data":
        this.#show(node.text, out);
        return "next";
      case "output":
        this.#show(str(this.evaluate(node.expr, scope)), out);
        return "next";
      case "if":
        return this.run(isTrue(this.evaluate(node.test, scope)) ? node.body : node.otherwise, scope, out);
      case "for":
        this.#runFor(node, scope, this.evaluate(node.iterable, scope), 0, out);
        return "next";
      case "set":
        this.#assign(node.target, this.evaluate(node.value, scope), scope);
        return "next";
      case "setblock": {
        const text = this.capture(node.body, new Scope(scope));
        this.#assign(node.target, node.filter === null ? text : this.#filtered(node.filter, text, scope), scope);
        return "next";
      }
      case "macro":
        scope.set(node.name, this.#macro(node.name, node.signature, scope));
        return "next";
      case "callblock": {
        const args = this.#arguments(node.call.args, scope);
        args.named.set("caller", this.#macro("caller", node.signature, scope));
        this.#show(str(this.#call(this.evaluate(node.call.of, scope), args)), out);
        return "next";
      }
      case "filterblock":
        this.#show(str(this.#filtered(node.filter, this.capture(node.body, new Scope(scope)), scope)), out);
        return "next";
      case "with": {
        const inner = new Scope(scope);
        for (const [target, value] of node.names) this.#assign(target, this.evaluate(value, scope), inner);
        return this.run(node.body, inner, out);
      }
      case "scope":
        return this.run(node.body, new Scope(node.seesLocals ? scope : scope.root), out);
      default:
        return node.kind;
    }
  }

  #show(text: Text, out: Text[]): void {
    this.budget.make(text.s.length);
    out.push(text);
  }

  // --- loops -------------------------------------------------------------------------------------------------------

  #runFor(node: ForNode, outer: Scope, iterable: Value, depth: number, out: Text[]): void {
    const items: Value[] = [];
    for (const item of iterate(iterable)) {
      this.budget.step();
      if (node.test !== null) {
        const scope = new Scope(outer);
        this.#assign(node.target, item, scope);
        if (!isTrue(this.evaluate(node.test, scope))) continue;
      }
      items.push(item);
    }
    const recurse = (value: Value): Value =>
      this.#nested(() => {
        const shown: Text[] = [];
        this.#runFor(node, outer, value, depth + 1, shown);
        return Text.join(shown);
      });
    const loop = new Loop(items, depth, node.isRecursive ? recurse : null);
    let isTurnDone = false;
    for (let i = 0; i < items.length; i++) {
      loop.index = i;
      const scope = new Scope(outer);
      scope.set("loop", loop);
      this.#assign(node.target, items[i]!, scope);
      const flow = this.run(node.body, scope, out);
      if (flow === "break") break;
      if (flow === "next") isTurnDone = true;
    }
    // Jinja's else is for loops no turn of which came to its end, those that began with a break or skipped every item among them.
    if (!isTurnDone) this.run(node.otherwise, new Scope(outer), out);
  }

  // --- macros ------------------------------------------------------------------------------------------------------

  #macro(name: string, signature: Signature, outer: Scope): Callable {
    const names = signature.parameters.map((parameter) => parameter.name);
    const call = (args: Arguments): Value =>
      this.#nested(() => {
        const scope = new Scope(outer);
        this.#bindParameters(name, signature, args, scope);
        return this.capture(signature.body, scope);
      });
    const attributes = new Map<string, Value>([
      ["name", Text.own(name)],
      ["arguments", new Tuple(names.map((parameter) => Text.own(parameter)))],
      ["caller", signature.uses.caller],
    ]);
    return new Callable(name, call, `<Macro '${name}'>`, attributes);
  }

  #bindParameters(macro: string, signature: Signature, args: Arguments, scope: Scope): void {
    const { parameters, uses } = signature;
    const named = new Map(args.named);
    parameters.forEach(({ name, fallback }, i) => {
      let value = args.positional[i];
      if (value === undefined) {
        value = named.get(name);
        named.delete(name);
      }
      if (value === undefined) {
        const reason = `parameter '${name}' was not provided`;
        value = fallback === null ? new Undefined(reason) : this.evaluate(fallback, scope);
      }
      scope.set(name, value);
    });
    if (uses.caller) {
      const caller = named.get("caller");
      scope.set("caller", caller === undefined ? new Undefined("No caller defined") : caller);
      named.delete("caller");
    }
    if (uses.kwargs) scope.set("kwargs", Dict.of([...named].map(([name, value]) => [Text.own(name), value] as const)));
    else
      for (const name of named.keys()) throw new TemplateError(`macro '${macro}' takes no keyword argument '${name}'`);
    const rest = args.positional.slice(parameters.length);
    if (uses.varargs) scope.set("varargs", new Tuple(rest));
    else if (rest.length > 0) {
      throw new TemplateError(`macro '${macro}' takes not more than ${parameters.length} argument(s)`);
    }
  }

  #nested<T>(body: () => T): T {
    if (this.#callDepth >= MAX_CALL_DEPTH) throw new TemplateError("maximum recursion depth exceeded");
    this.#callDepth++;
    try {
      return body();
    } finally {
      this.#callDepth--;
    }
  }

  #call(callee: Value, args: Arguments): Value {
    if (callee instanceof Callable) return callee.call(args);
    if (callee instanceof Loop) return callee.call(args.positional[0] ?? null);
    if (callee instanceof Undefined) callee.fail();
    throw new TemplateError(`'${typeName(callee)}' object is not callable`);
  }

  #arguments(args: CallArgs, scope: Scope): Arguments {
    const positional = args.positional.map((arg) => this.evaluate(arg, scope));
    const named = new Map(args.named.map(([name, arg]) => [name, this.evaluate(arg, scope)]));
    if (args.star !== null) positional.push(...iterate(this.evaluate(args.star, scope)));
    if (args.doubleStar !== null) {
      const rest = this.evaluate(args.doubleStar, scope);
      if (!(rest instanceof Dict)) throw new TemplateError("argument after ** must be a mapping");
      for (const [key, value] of rest.entries()) named.set(str(key).s, value);
    }
    return { positional, named };
  }

  // --- expressions -------------------------------------------------------------------------------------------------

  evaluate(expr: Expr, scope: Scope): Value {
    this.budget.step();
    switch (expr.kind) {
      case "const":
        return expr.value;
      case "string":
        return expr.text;
      case "name":
        return scope.get(expr.name);
      case "list":
        return new List(expr.items.map((item) => this.evaluate(item, scope)));
      case "tuple":
        return new Tuple(expr.items.map((item) => this.evaluate(item, scope)));
      case "dict":
        return Dict.of(
          expr.entries.map(([key, value]) => [this.evaluate(key, scope), this.evaluate(value, scope)] as const),
        );
      case "cond":
        if (isTrue(this.evaluate(expr.test, scope))) return this.evaluate(expr.yes, scope);
        if (expr.no !== null) return this.evaluate(expr.no, scope);
        return new Undefined("the inline if-expression evaluated to false and no else section was defined.");
      case "and": {
        const left = this.evaluate(expr.left, scope);
        return isTrue(left) ? this.evaluate(expr.right, scope) : left;
      }
      case "or": {
        const left = this.evaluate(expr.left, scope);
        return isTrue(left) ? left : this.evaluate(expr.right, scope);
      }
      case "not":
        return !isTrue(this.evaluate(expr.of, scope));
      case "compare": {
        let left = this.evaluate(expr.first, scope);
        for (const [operator, operand] of expr.rest) {
          const right = this.evaluate(operand, scope);
          if (!comparison(operator, left, right)) return false;
          left = right;
        }
        return true;
      }
      case "binary":
        return binary(expr.operator, this.evaluate(expr.left, scope), this.evaluate(expr.right, scope), this.budget);
      case "unary":
        return unary(expr.operator, this.evaluate(expr.of, scope));
      case "concat":
        return concatenate(
          expr.items.map((item) => this.evaluate(item, scope)),
          this.budget,
        );
      case "getattr":
        return getAttribute(this.evaluate(expr.of, scope), expr.name, this);
      case "getitem": {
        const of = this.evaluate(expr.of, scope);
        if (expr.key.kind !== "slice") return getItem(of, this.evaluate(expr.key, scope), this);
        const bound = (part: Expr | null): Value => (part === null ? null : this.evaluate(part, scope));
        return getSlice(of, bound(expr.key.start), bound(expr.key.stop), bound(expr.key.step));
      }
      case "slice":
        throw new TemplateError("a slice stands for no value of its own");
      case "call": {
        const callee = this.evaluate(expr.of, scope);
        return this.#call(callee, this.#arguments(expr.args, scope));
      }
      case "filter":
        return this.callFilter(expr.name, this.evaluate(expr.of!, scope), this.#arguments(expr.args, scope));
      case "test": {
        // Whether a filter exists is asked of names, not of values.
        const value = this.evaluate(expr.of, scope);
        return this.callTest(expr.name, value, this.#arguments(expr.args, scope));
      }
    }
  }

  /** A chain of filters that begins with nothing, applied to a text. */
  #filtered(filter: Expr, text: Text, scope: Scope): Value {
    if (filter.kind !== "filter") return text;
    const value = filter.of === null ? text : this.#filtered(filter.of, text, scope);
    return this.callFilter(filter.name, value, this.#arguments(filter.args, scope));
  }

  #assign(target: Target, value: Value, scope: Scope): void {
    if (target.kind === "name") {
      scope.set(target.name, value);
    } else if (target.kind === "attribute") {
      const namespace = scope.get(target.of);
      if (!(namespace instanceof Namespace)) throw new TemplateError("cannot assign attribute on non-namespace object");
      namespace.attributes.set(target.name, value);
    } else {
      const items = [...iterate(value)];
      if (items.length !== target.items.length) {
        const problem = items.length < target.items.length ? "not enough" : "too many";
        throw new TemplateError(`${problem} values to unpack (expected ${target.items.length}, got ${items.length})`);
      }
      for (let i = 0; i < items.length; i++) this.#assign(target.items[i]!, items[i]!, scope);
    }
  }
}
