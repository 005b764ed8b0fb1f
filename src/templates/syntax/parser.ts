// Statements: tags between {% and %}, and the text around them.

import { TemplateError } from "../errors.js";
import { EMPTY, Text } from "../values/text.js";
import { ExpressionParser, type KnownNames } from "./expression-parser.js";
import { tokenize } from "./lexer.js";
import { type Expr, NO_ARGS, type Node, type Signature, type Target } from "./nodes.js";
import { TokenStream } from "./token-stream.js";
import { usedNames } from "./used-names.js";

export function parseTemplate(source: string, known: KnownNames): readonly Node[] {
  return new Parser(new TokenStream(tokenize(source)), known).parseAll();
}

class Parser extends ExpressionParser {
  #numLoops = 0;

  parseAll(): Node[] {
    const nodes = this.#parseNodes(() => false);
    this.stream.expect("eof");
    if (this.unknown.length > 0) throw new TemplateError(this.unknown[0]);
    return nodes;
  }

  #parseNodes(isEnd: () => boolean): Node[] {
    const { stream } = this;
    const nodes: Node[] = [];
    while (stream.current.kind !== "eof") {
      if (stream.current.kind === "data") nodes.push({ kind: "data", text: Text.own(stream.next().value) });
      else if (stream.current.kind === "variable_begin") {
        stream.next();
        nodes.push({ kind: "output", expr: this.parseTuple() });
        stream.expect("variable_end");
      } else {
        stream.expect("block_begin");
        if (isEnd()) return nodes;
        nodes.push(this.#parseStatement());
        stream.expect("block_end");
      }
    }
    return nodes;
  }

  /** The nodes up to one of the tags named, whose name becomes the current token. */
  #parseBody(...ends: string[]): Node[] {
    this.stream.skipOperator(":");
    this.stream.expect("block_end");
    const nodes = this.#parseNodes(() => ends.some((end) => this.stream.isName(end)));
    if (this.stream.current.kind === "eof")
      this.stream.fail(`Unexpected end of template, looking for ${ends.join(", ")}.`);
    return nodes;
  }

  #parseBodyTo(end: string): Node[] {
    const nodes = this.#parseBody(end);
    this.stream.next();
    return nodes;
  }

  #parseStatement(): Node {
    const name = this.stream.expect("name").value;
    switch (name) {
      case "for":
        return this.#parseFor();
      case "if":
        return this.#parseIf();
      case "set":
        return this.#parseSet();
      case "macro":
        return this.#parseMacro();
      case "call":
        return this.#parseCallBlock();
      case "filter": {
        const filter = this.parseFilter(null, true)!;
        return { kind: "filterblock", filter, body: this.#parseBodyTo("endfilter") };
      }
      case "with":
        return this.#parseWith();
      case "generation":
        return { kind: "scope", seesLocals: true, body: this.#parseOutsideLoop("endgeneration") };
      case "block":
        return this.#parseBlock();
      case "print":
        return this.#parsePrint();
      case "break":
      case "continue":
        if (this.#numLoops === 0) this.stream.fail(`'${name}' outside loop`);
        return { kind: name };
      case "include":
      case "import":
      case "from":
      case "extends":
      case "autoescape":
        return this.stream.fail(`The tag '${name}' has no use in a chat template and is not supported.`);
    }
    return this.stream.fail(`Encountered unknown tag '${name}'.`);
  }

  #parseFor(): Node {
    const { stream } = this;
    const target = this.parseTarget({ end: "in" });
    stream.expect("name", "in");
    const iterable = this.parseTuple({ parse: () => this.parseOr(), end: "recursive" });
    const test = stream.skipName("if") ? this.parseExpression() : null;
    const isRecursive = stream.skipName("recursive");
    this.#numLoops++;
    const body = this.#parseBody("endfor", "else");
    this.#numLoops--;
    const otherwise = stream.next().value === "endfor" ? [] : this.#parseBodyTo("endfor");
    return { kind: "for", target, iterable, test, isRecursive, body, otherwise };
  }

  #parseIf(): Node {
    const { stream } = this;
    const numUnknown = this.unknown.length;
    const test = this.parseTuple({ parse: () => this.parseOr() });
    const body = this.#parseBody("elif", "else", "endif");
    const next = stream.next().value;
    const otherwise = next === "elif" ? [this.#parseIf()] : next === "else" ? this.#parseBodyTo("endif") : [];
    this.unknown.length = numUnknown;
    return { kind: "if", test, body, otherwise };
  }

  #parseSet(): Node {
    const target = this.parseTarget({ allowsAttribute: true });
    if (this.stream.skipOperator("=")) return { kind: "set", target, value: this.parseTuple() };
    const filter = this.parseFilter(null);
    return { kind: "setblock", target, filter, body: this.#parseBodyTo("endset") };
  }

  #parseMacro(): Node {
    const name = this.stream.expect("name").value;
    const parameters = this.#parseParameters();
    return { kind: "macro", name, signature: this.#parseSignature(parameters, "endmacro") };
  }

  #parseCallBlock(): Node {
    const parameters = this.stream.isOperator("(") ? this.#parseParameters() : [];
    const call = this.parseExpression();
    if (call.kind !== "call") return this.stream.fail("expected call");
    return { kind: "callblock", call, signature: this.#parseSignature(parameters, "endcall") };
  }

  #parseParameters(): Signature["parameters"] {
    const { stream } = this;
    const parameters: { name: string; fallback: Expr | null }[] = [];
    stream.expect("operator", "(");
    while (!stream.isOperator(")")) {
      if (parameters.length > 0) stream.expect("operator", ",");
      const { value: name } = stream.expect("name");
      const fallback = stream.skipOperator("=") ? this.parseExpression() : null;
      if (fallback === null && parameters.at(-1)?.fallback)
        stream.fail("non-default argument follows default argument");
      parameters.push({ name, fallback });
    }
    stream.expect("operator", ")");
    return parameters;
  }

  #parseSignature(parameters: Signature["parameters"], end: string): Signature {
    if (parameters.some(({ name, fallback }) => name === "caller" && fallback === null)) {
      this.stream.fail("the special 'caller' argument must be omitted or be given a default");
    }
    const body = this.#parseOutsideLoop(end);
    const used = usedNames(body);
    const isParameter = (name: string) => parameters.some((parameter) => parameter.name === name);
    const uses = (name: string) => used.has(name) && !isParameter(name);
    return {
      parameters,
      body,
      uses: { caller: uses("caller"), kwargs: uses("kwargs"), varargs: uses("varargs") },
    };
  }

  /** A body that runs as a function of its own, where a break has no loop. */
  #parseOutsideLoop(end: string): Node[] {
    const numLoops = this.#numLoops;
    this.#numLoops = 0;
    const body = this.#parseBodyTo(end);
    this.#numLoops = numLoops;
    return body;
  }

  #parseWith(): Node {
    const names: [Target, Expr][] = [];
    while (this.stream.current.kind !== "block_end") {
      if (names.length > 0) this.stream.expect("operator", ",");
      const target = this.parseTarget();
      this.stream.expect("operator", "=");
      names.push([target, this.parseExpression()]);
    }
    return { kind: "with", names, body: this.#parseBodyTo("endwith") };
  }

  #parseBlock(): Node {
    const name = this.stream.expect("name").value;
    const seesLocals = this.stream.skipName("scoped");
    const body = this.#parseOutsideLoop("endblock");
    this.stream.skipName(name);
    return { kind: "scope", seesLocals, body };
  }

  #parsePrint(): Node {
    const items: Expr[] = [];
    while (this.stream.current.kind !== "block_end") {
      if (items.length > 0) this.stream.expect("operator", ",");
      items.push(this.parseExpression());
    }
    const empty: Expr = { kind: "string", text: EMPTY };
    return {
      kind: "output",
      expr: { kind: "filter", of: { kind: "list", items: [...items, empty] }, name: "join", args: NO_ARGS },
    };
  }
}
