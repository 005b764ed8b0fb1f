// Expressions, by Jinja's grammar and precedence: or, and, not, comparisons, + -, ~, * / // %, **, signs, postfixes, filters and
// tests. (Signs bind closer than **, and ** is taken from the left, unlike in Python.)

import { whyNoFilter } from "../filters/refused-filters.js";
import { Text } from "../values/text.js";
import { type CallArgs, type Expr, NO_ARGS, type Target } from "./nodes.js";
import { unescapeString } from "./string-literal.js";
import type { TokenStream } from "./token-stream.js";

const COMPARISONS = new Set(["==", "!=", ">", ">=", "<", "<="]);

export interface KnownNames {
  readonly filters: ReadonlySet<string>;
  readonly tests: ReadonlySet<string>;
}

export class ExpressionParser {
  protected readonly stream: TokenStream;
  readonly #known: KnownNames;
  /** Filters and tests that nobody knows. Inside a condition they are an error only when they are reached. */
  protected readonly unknown: string[] = [];

  constructor(stream: TokenStream, known: KnownNames) {
    this.stream = stream;
    this.#known = known;
  }

  parseExpression(): Expr {
    const numUnknown = this.unknown.length;
    let expr = this.parseOr();
    while (this.stream.skipName("if")) {
      const test = this.parseOr();
      const no = this.stream.skipName("else") ? this.parseExpression() : null;
      this.unknown.length = numUnknown;
      expr = { kind: "cond", test, yes: expr, no };
    }
    return expr;
  }

  /** One expression, or a tuple of several where commas part them. */
  parseTuple(options: { parse?: () => Expr; end?: string; isParenthesised?: boolean } = {}): Expr {
    const { parse = () => this.parseExpression(), end, isParenthesised = false } = options;
    const items: Expr[] = [];
    let isTuple = false;
    while (true) {
      if (items.length > 0) this.stream.expect("operator", ",");
      if (this.#isTupleEnd(end)) break;
      items.push(parse());
      if (!this.stream.isOperator(",")) break;
      isTuple = true;
    }
    if (!isTuple && items.length > 0) return items[0]!;
    if (!isTuple && !isParenthesised) throw this.stream.unexpected("an expression");
    return { kind: "tuple", items };
  }

  parseTarget(options: { end?: string; allowsAttribute?: boolean } = {}): Target {
    const { stream } = this;
    if (options.allowsAttribute && stream.ahead.kind === "operator" && stream.ahead.value === ".") {
      const of = stream.expect("name").value;
      stream.next();
      return { kind: "attribute", of, name: stream.expect("name").value };
    }
    const end = options.end === undefined ? {} : { end: options.end };
    return this.#toTarget(this.parseTuple({ parse: () => this.parsePrimary(), ...end }));
  }

  #toTarget(expr: Expr): Target {
    if (expr.kind === "name") return { kind: "name", name: expr.name };
    if (expr.kind === "tuple") return { kind: "tuple", items: expr.items.map((item) => this.#toTarget(item)) };
    return this.stream.fail(`can't assign to '${expr.kind}'`);
  }

  #isTupleEnd(end: string | undefined): boolean {
    const { kind } = this.stream.current;
    if (kind === "variable_end" || kind === "block_end" || this.stream.isOperator(")")) return true;
    return end !== undefined && this.stream.isName(end);
  }

  parseOr(): Expr {
    let left = this.#parseAnd();
    while (this.stream.skipName("or")) left = { kind: "or", left, right: this.#parseAnd() };
    return left;
  }

  #parseAnd(): Expr {
    let left = this.#parseNot();
    while (this.stream.skipName("and")) left = { kind: "and", left, right: this.#parseNot() };
    return left;
  }

  #parseNot(): Expr {
    return this.stream.skipName("not") ? { kind: "not", of: this.#parseNot() } : this.#parseCompare();
  }

  #parseCompare(): Expr {
    const { stream } = this;
    const first = this.#parseSum();
    const rest: [string, Expr][] = [];
    while (true) {
      const { kind, value } = stream.current;
      if (kind === "operator" && COMPARISONS.has(value)) {
        stream.next();
        rest.push([value, this.#parseSum()]);
      } else if (stream.skipName("in")) {
        rest.push(["in", this.#parseSum()]);
      } else if (stream.isName("not") && stream.ahead.kind === "name" && stream.ahead.value === "in") {
        stream.next();
        stream.next();
        rest.push(["not in", this.#parseSum()]);
      } else break;
    }
    return rest.length === 0 ? first : { kind: "compare", first, rest };
  }

  #parseBinary(operators: readonly string[], parse: () => Expr): Expr {
    let left = parse();
    while (this.stream.current.kind === "operator" && operators.includes(this.stream.current.value)) {
      const operator = this.stream.next().value;
      left = { kind: "binary", operator, left, right: parse() };
    }
    return left;
  }

  #parseSum(): Expr {
    return this.#parseBinary(["+", "-"], () => this.#parseConcat());
  }

  #parseConcat(): Expr {
    const items = [this.#parseProduct()];
    while (this.stream.skipOperator("~")) items.push(this.#parseProduct());
    return items.length === 1 ? items[0]! : { kind: "concat", items };
  }

  #parseProduct(): Expr {
    return this.#parseBinary(["*", "/", "//", "%"], () => this.#parseBinary(["**"], () => this.#parseUnary(true)));
  }

  #parseUnary(withFilters: boolean): Expr {
    const operator = this.stream.isOperator("-") ? "-" : this.stream.isOperator("+") ? "+" : null;
    let expr: Expr;
    if (operator === null) expr = this.parsePrimary();
    else {
      this.stream.next();
      expr = { kind: "unary", operator, of: this.#parseUnary(false) };
    }
    expr = this.#parsePostfix(expr);
    return withFilters ? this.#parseFilters(expr) : expr;
  }

  parsePrimary(): Expr {
    const { stream } = this;
    const { kind, value } = stream.current;
    switch (kind) {
      case "name":
        stream.next();
        if (value === "true" || value === "True") return { kind: "const", value: true };
        if (value === "false" || value === "False") return { kind: "const", value: false };
        if (value === "none" || value === "None") return { kind: "const", value: null };
        return { kind: "name", name: value };
      case "string": {
        let text = "";
        while (stream.current.kind === "string") text += unescapeString(stream.next().value);
        return { kind: "string", text: Text.own(text) };
      }
      case "integer":
        stream.next();
        return { kind: "const", value: BigInt(value.replaceAll("_", "")) };
      case "float":
        stream.next();
        return { kind: "const", value: Number(value.replaceAll("_", "")) };
    }
    if (stream.skipOperator("(")) {
      const tuple = this.parseTuple({ isParenthesised: true });
      stream.expect("operator", ")");
      return tuple;
    }
    if (stream.skipOperator("[")) return { kind: "list", items: this.#parseItems("]", () => this.parseExpression()) };
    if (stream.skipOperator("{")) return { kind: "dict", entries: this.#parseItems("}", () => this.#parseEntry()) };
    throw stream.unexpected();
  }

  #parseItems<T>(close: string, parse: () => T): T[] {
    const items: T[] = [];
    while (!this.stream.isOperator(close)) {
      if (items.length > 0) this.stream.expect("operator", ",");
      if (this.stream.isOperator(close)) break;
      items.push(parse());
    }
    this.stream.expect("operator", close);
    return items;
  }

  #parseEntry(): readonly [Expr, Expr] {
    const key = this.parseExpression();
    this.stream.expect("operator", ":");
    return [key, this.parseExpression()];
  }

  #parsePostfix(start: Expr): Expr {
    let expr = start;
    while (true) {
      if (this.stream.isOperator(".") || this.stream.isOperator("[")) expr = this.#parseSubscript(expr);
      else if (this.stream.isOperator("(")) expr = { kind: "call", of: expr, args: this.parseCallArgs() };
      else return expr;
    }
  }

  #parseFilters(start: Expr): Expr {
    let expr = start;
    while (true) {
      if (this.stream.isOperator("|")) expr = this.parseFilter(expr)!;
      else if (this.stream.isName("is")) expr = this.#parseTest(expr);
      else if (this.stream.isOperator("(")) expr = { kind: "call", of: expr, args: this.parseCallArgs() };
      else return expr;
    }
  }

  #parseSubscript(of: Expr): Expr {
    const { stream } = this;
    if (stream.next().value === ".") {
      const { kind, value } = stream.next();
      if (kind === "name") return { kind: "getattr", of, name: value };
      if (kind !== "integer") return stream.fail("expected name or number");
      return { kind: "getitem", of, key: { kind: "const", value: BigInt(value) } };
    }
    const keys: Expr[] = [];
    while (!stream.isOperator("]")) {
      if (keys.length > 0) stream.expect("operator", ",");
      keys.push(this.#parseKey());
    }
    stream.expect("operator", "]");
    return { kind: "getitem", of, key: keys.length === 1 ? keys[0]! : { kind: "tuple", items: keys } };
  }

  #parseKey(): Expr {
    const { stream } = this;
    const isOver = () => stream.isOperator("]") || stream.isOperator(",");
    let start: Expr | null = null;
    if (!stream.isOperator(":")) {
      start = this.parseExpression();
      if (!stream.isOperator(":")) return start;
    }
    stream.expect("operator", ":");
    let stop: Expr | null = null;
    if (!isOver() && !stream.isOperator(":")) stop = this.parseExpression();
    let step: Expr | null = null;
    if (stream.skipOperator(":") && !isOver()) step = this.parseExpression();
    return { kind: "slice", start, stop, step };
  }

  parseCallArgs(): CallArgs {
    const { stream } = this;
    stream.expect("operator", "(");
    const positional: Expr[] = [];
    const named: [string, Expr][] = [];
    let star: Expr | null = null;
    let doubleStar: Expr | null = null;
    const ensure = (isFine: boolean): void => {
      if (!isFine) stream.fail("invalid syntax for function call expression");
    };
    for (let isFirst = true; !stream.isOperator(")"); isFirst = false) {
      if (!isFirst) {
        stream.expect("operator", ",");
        if (stream.isOperator(")")) break;
      }
      if (stream.skipOperator("*")) {
        ensure(star === null && doubleStar === null);
        star = this.parseExpression();
      } else if (stream.skipOperator("**")) {
        ensure(doubleStar === null);
        doubleStar = this.parseExpression();
      } else if (stream.current.kind === "name" && stream.ahead.kind === "operator" && stream.ahead.value === "=") {
        ensure(doubleStar === null);
        const { value } = stream.next();
        stream.next();
        named.push([value, this.parseExpression()]);
      } else {
        ensure(star === null && doubleStar === null && named.length === 0);
        positional.push(this.parseExpression());
      }
    }
    stream.expect("operator", ")");
    return { positional, named, star, doubleStar };
  }

  /** `|name(args)` once or several times; null when there is none and nothing to filter. */
  parseFilter(start: Expr | null, isInline = false): Expr | null {
    const { stream } = this;
    let expr = start;
    let isBare = isInline;
    while (isBare || stream.isOperator("|")) {
      if (!isBare) stream.next();
      isBare = false;
      const name = this.#parseDottedName();
      if (!this.#known.filters.has(name)) this.unknown.push(whyNoFilter(name));
      const args = stream.isOperator("(") ? this.parseCallArgs() : NO_ARGS;
      expr = { kind: "filter", of: expr, name, args };
    }
    return expr;
  }

  #parseTest(of: Expr): Expr {
    const { stream } = this;
    stream.expect("name", "is");
    const isNegated = stream.skipName("not");
    const name = this.#parseDottedName();
    if (!this.#known.tests.has(name)) this.unknown.push(`No test named '${name}'.`);
    let args = NO_ARGS;
    const { kind, value } = stream.current;
    if (stream.isOperator("(")) args = this.parseCallArgs();
    else if (
      (kind === "name" && !["else", "or", "and"].includes(value)) ||
      ["string", "integer", "float"].includes(kind) ||
      (kind === "operator" && (value === "[" || value === "{"))
    ) {
      if (stream.isName("is")) stream.fail("You cannot chain multiple tests with is");
      args = { ...NO_ARGS, positional: [this.#parsePostfix(this.parsePrimary())] };
    }
    const test: Expr = { kind: "test", of, name, args };
    return isNegated ? { kind: "not", of: test } : test;
  }

  #parseDottedName(): string {
    let name = this.stream.expect("name").value;
    while (this.stream.skipOperator(".")) name += `.${this.stream.expect("name").value}`;
    return name;
  }
}
