// The arguments of a call whose parameters are written one by one as text: JSON as it grows. A string can be passed on while it is
// written; anything else must be whole to be known as JSON.

import type { CallSink } from "./call-sink.js";

export class ParameterWriter {
  readonly #sink: CallSink;
  #count = 0;
  #isText = false;
  #allowsText = true;

  constructor(sink: CallSink) {
    this.#sink = sink;
  }

  /** `schema`: of the parameter's value; undefined where nothing is known. */
  begin(name: string, schema: unknown): void {
    this.#sink.arguments(`${this.#count++ === 0 ? "{" : ", "}${JSON.stringify(name)}: `);
    const types = typesOf(schema);
    this.#isText = types?.every((type) => type === "string") === true;
    this.#allowsText = types === null || types.includes("string");
    if (this.#isText) this.#sink.arguments('"');
  }

  /** Whether more() may be used for the parameter under way. */
  get isText(): boolean {
    return this.#isText;
  }

  /** More of a string. */
  more(text: string): void {
    this.#sink.arguments(JSON.stringify(text).slice(1, -1));
  }

  /** Ends the parameter: with its whole text, or after more(). */
  end(whole: string | null): void {
    if (this.#isText) {
      if (whole !== null) this.more(whole);
      this.#sink.arguments('"');
    } else this.#sink.arguments(jsonOf(whole ?? "", this.#allowsText));
  }

  close(): void {
    this.#sink.arguments(this.#count === 0 ? "{}" : "}");
  }
}

/** JSON where it is JSON; else a string. What a parameter that may be a string says in quotes stays as it is. */
function jsonOf(text: string, allowsText: boolean): string {
  const trimmed = text.trim();
  try {
    const value: unknown = JSON.parse(trimmed);
    if (!(allowsText && typeof value === "string")) return trimmed;
  } catch {
    const word = { True: "true", False: "false", None: "null" }[trimmed];
    if (word !== undefined) return word;
  }
  return JSON.stringify(text);
}

/** The types a schema allows; null when it does not say. */
function typesOf(schema: unknown): readonly string[] | null {
  if (typeof schema !== "object" || schema === null) return null;
  const { type, enum: values, anyOf, oneOf } = schema as Record<string, unknown>;
  if (typeof type === "string") return [type];
  if (Array.isArray(type)) return type.filter((name) => typeof name === "string");
  if (Array.isArray(values)) return [...new Set(values.map((value) => (value === null ? "null" : typeof value)))];
  const options = Array.isArray(anyOf) ? anyOf : Array.isArray(oneOf) ? oneOf : null;
  if (options === null) return null;
  const all = options.map(typesOf);
  return all.includes(null) ? null : all.flatMap((types) => types!);
}
