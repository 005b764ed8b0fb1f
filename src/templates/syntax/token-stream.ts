// The parser's view of the tokens: one current, one ahead.

import { syntax, type Token } from "./lexer.js";

export class TokenStream {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  get current(): Token {
    return this.#tokens[this.#at]!;
  }

  get ahead(): Token {
    return this.#tokens[this.#at + 1] ?? this.current;
  }

  next(): Token {
    const token = this.current;
    if (token.kind !== "eof") this.#at++;
    return token;
  }

  isOperator(value: string): boolean {
    return this.current.kind === "operator" && this.current.value === value;
  }

  isName(value: string): boolean {
    return this.current.kind === "name" && this.current.value === value;
  }

  skipOperator(value: string): boolean {
    if (!this.isOperator(value)) return false;
    this.#at++;
    return true;
  }

  skipName(value: string): boolean {
    if (!this.isName(value)) return false;
    this.#at++;
    return true;
  }

  expect(kind: Token["kind"], value?: string): Token {
    const token = this.current;
    if (token.kind === kind && (value === undefined || token.value === value)) return this.next();
    throw this.unexpected(value ?? kind.replace("_", " "));
  }

  unexpected(expected?: string): Error {
    const { kind, value, line } = this.current;
    const found = kind === "eof" ? "end of template" : `'${value.trim()}'`;
    return syntax(expected === undefined ? `unexpected ${found}` : `expected ${expected}, got ${found}`, line);
  }

  fail(message: string): never {
    throw syntax(message, this.current.line);
  }
}
