// A template's source as tokens, with Jinja's rules for white space as chat templates use them: trim_blocks (the line break after
// a block tag goes) and lstrip_blocks (spaces before a block tag that begins a line go), "-" and "+" beside a tag deciding otherwise.

import { TemplateError } from "../errors.js";
import { PYTHON_SPACE } from "../values/text.js";

export type TokenKind =
  | "data"
  | "block_begin"
  | "block_end"
  | "variable_begin"
  | "variable_end"
  | "name"
  | "string"
  | "integer"
  | "float"
  | "operator"
  | "eof";

export interface Token {
  readonly kind: TokenKind;
  readonly value: string;
  readonly line: number;
}

const WS = `[${PYTHON_SPACE}]`;
const OPENING = new RegExp(`\\{%([-+]?)${WS}*raw${WS}*(?:-%\\}${WS}*|%\\})|\\{%([-+]?)|\\{\\{([-+]?)|\\{#([-+]?)`, "g");
const RAW_END = new RegExp(`\\{%([-+]?)${WS}*endraw${WS}*(?:\\+%\\}|-%\\}${WS}*|%\\}\\n?)`, "g");
const COMMENT_END = new RegExp(`\\+#\\}|-#\\}${WS}*|#\\}\\n?`, "g");
const BLOCK_END = new RegExp(`\\+%\\}|-%\\}${WS}*|%\\}\\n?`, "y");
const VARIABLE_END = new RegExp(`-\\}\\}${WS}*|\\}\\}`, "y");
const TRAILING_SPACE = new RegExp(`${WS}+$`);
const ONLY_SPACE = new RegExp(`^${WS}+$`);

const LEXEMES: readonly [TokenKind | "space", RegExp][] = [
  ["space", new RegExp(`${WS}+`, "y")],
  ["float", /(?<!\.)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)/iy],
  ["integer", /0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*/iy],
  ["name", /[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}]*/uy],
  ["string", /'[^'\\]*(?:\\[\s\S][^'\\]*)*'|"[^"\\]*(?:\\[\s\S][^"\\]*)*"/y],
  ["operator", /\/\/|\*\*|==|!=|>=|<=|[+\-/*%~[\](){}><=.:|,;]/y],
];
const CLOSER: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };

export function tokenize(template: string): Token[] {
  let source = template.replaceAll(/\r\n|\r/g, "\n");
  if (source.endsWith("\n")) source = source.slice(0, -1);
  const tokens: Token[] = [];
  let at = 0;
  let line = 1;
  let isLineStart = true;

  const push = (kind: TokenKind, value: string): void => {
    tokens.push({ kind, value, line });
  };
  const advance = (to: number): void => {
    for (let i = at; i < to; i++) if (source.charCodeAt(i) === 10) line++;
    if (to > at) isLineStart = source[to - 1] === "\n";
    at = to;
  };
  const pushData = (end: number, sign: string, isVariable: boolean): void => {
    let data = source.slice(at, end);
    if (sign === "-") data = data.replace(TRAILING_SPACE, "");
    else if (sign !== "+" && !isVariable) {
      const start = data.lastIndexOf("\n") + 1;
      if ((start > 0 || isLineStart) && ONLY_SPACE.test(data.slice(start))) data = data.slice(0, start);
    }
    if (data !== "") push("data", data);
    advance(end);
  };

  while (at < source.length) {
    OPENING.lastIndex = at;
    const found = OPENING.exec(source);
    if (found === null) {
      push("data", source.slice(at));
      break;
    }
    const [whole, raw, block, variable, comment] = found;
    pushData(found.index, raw ?? block ?? variable ?? comment ?? "", variable !== undefined);
    advance(at + whole.length);
    if (comment !== undefined) {
      COMMENT_END.lastIndex = at;
      const end = COMMENT_END.exec(source);
      if (end === null) throw syntax("Missing end of comment tag", line);
      advance(end.index + end[0].length);
    } else if (raw !== undefined) {
      RAW_END.lastIndex = at;
      const end = RAW_END.exec(source);
      if (end === null) throw syntax("Missing end of raw directive", line);
      pushData(end.index, end[1]!, false);
      advance(at + end[0].length);
    } else {
      const kind = block === undefined ? "variable" : "block";
      push(`${kind}_begin`, whole);
      advance(readTag(source, at, line, kind, push, advance));
    }
  }
  push("eof", "");
  return tokens;
}

/** The tokens up to the tag's end; returns where the text goes on. */
function readTag(
  source: string,
  start: number,
  line: number,
  kind: "block" | "variable",
  push: (kind: TokenKind, value: string) => void,
  advance: (to: number) => void,
): number {
  const ending = kind === "block" ? BLOCK_END : VARIABLE_END;
  const open: string[] = [];
  let at = start;
  next: while (at < source.length) {
    // Inside brackets "}}" closes two dicts.
    if (open.length === 0) {
      ending.lastIndex = at;
      const end = ending.exec(source);
      if (end !== null) {
        push(`${kind}_end`, end[0]);
        return at + end[0].length;
      }
    }
    for (const [lexeme, pattern] of LEXEMES) {
      pattern.lastIndex = at;
      const match = pattern.exec(source);
      if (match === null) continue;
      const value = match[0];
      if (lexeme === "operator") {
        if (value in CLOSER) open.push(CLOSER[value]!);
        else if (value === ")" || value === "]" || value === "}") {
          if (open.length === 0) throw syntax(`unexpected '${value}'`, line);
          const expected = open.pop();
          if (expected !== value) throw syntax(`unexpected '${value}', expected '${expected}'`, line);
        }
      }
      if (lexeme !== "space") push(lexeme, value);
      at += value.length;
      advance(at);
      continue next;
    }
    throw syntax(`unexpected char ${JSON.stringify(source[at])} at ${at}`, line);
  }
  throw syntax(`unexpected end of template, expected the end of a ${kind}`, line);
}

export function syntax(message: string, line: number): TemplateError {
  return new TemplateError(`${message} (line ${line})`);
}
