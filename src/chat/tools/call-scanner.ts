// Reads {"name": ..., "arguments": {...}} as it is written, character by character: the name is known as soon as its string ends,
// and the arguments can be passed on while they grow, as the model spelled them.

type State = "start" | "key" | "colon" | "value" | "after" | "done" | "invalid";

/** Finds the end of one JSON value without judging what is inside. */
export class ValueScanner {
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #kind: "none" | "string" | "nested" | "primitive" = "none";
  text = "";

  get isString(): boolean {
    return this.#kind === "string";
  }

  get isNested(): boolean {
    return this.#kind === "nested";
  }

  /** Takes a character; "end" when it completes the value, "past" when the value had ended before it. */
  push(char: string): "more" | "end" | "past" {
    if (this.#kind === "none") {
      if (isSpace(char)) return "more";
      this.#kind = char === '"' ? "string" : char === "{" || char === "[" ? "nested" : "primitive";
    }
    if (this.#kind === "primitive" && (char === "," || char === "}" || char === "]" || isSpace(char))) return "past";
    this.text += char;
    if (this.#isInString) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (char === "\\") this.#isEscaped = true;
      else if (char === '"') {
        this.#isInString = false;
        if (this.#kind === "string") return "end";
      }
    } else if (char === '"') this.#isInString = true;
    else if (char === "{" || char === "[") this.#depth++;
    else if ((char === "}" || char === "]") && --this.#depth === 0) return "end";
    return "more";
  }
}

export class CallScanner {
  /** Everything taken so far: what to show when it turns out to be no call. */
  raw = "";
  /** "" where it is no string. Of several the first: it may be out already when others come. */
  name: string | null = null;
  #state: State = "start";
  #key = "";
  #value = new ValueScanner();
  #arguments = "";

  get isDone(): boolean {
    return this.#state === "done";
  }

  get isInvalid(): boolean {
    return this.#state === "invalid";
  }

  /** Takes characters from `start` until the object is complete or broken; returns the index after the last one taken. */
  push(text: string, start: number): number {
    let at = start;
    while (at < text.length && this.#state !== "done" && this.#state !== "invalid") this.#take(text[at++]!);
    this.raw += text.slice(start, at);
    return at;
  }

  /** What has come of the arguments since the last call. */
  takeArguments(): string {
    const text = this.#arguments;
    this.#arguments = "";
    return text;
  }

  #take(char: string): void {
    switch (this.#state) {
      case "start":
        if (char === "{") this.#enter("key");
        else if (!isSpace(char)) this.#state = "invalid";
        return;
      case "key":
        this.#takeKey(char);
        return;
      case "colon":
        if (char === ":") this.#enter("value");
        else if (!isSpace(char)) this.#state = "invalid";
        return;
      case "value":
        this.#takeValue(char);
        return;
      case "after":
        if (char === ",") this.#enter("key");
        else if (char === "}") this.#state = "done";
        else if (!isSpace(char)) this.#state = "invalid";
    }
  }

  #enter(state: State): void {
    this.#state = state;
    this.#value = new ValueScanner();
  }

  #takeKey(char: string): void {
    if (char === "}" && this.#value.text === "") {
      this.#state = "done";
      return;
    }
    const status = this.#value.push(char);
    if (status === "end" && this.#value.isString) {
      this.#key = unquote(this.#value.text) ?? "";
      this.#state = "colon";
    } else if (status !== "more" || (this.#value.text !== "" && !this.#value.isString)) this.#state = "invalid";
  }

  #takeValue(char: string): void {
    const value = this.#value;
    const status = value.push(char);
    const isArguments = this.#key === "arguments" || this.#key === "parameters";
    if (isArguments && value.isNested) this.#arguments += char; // white space ahead of it is not in it yet
    if (status === "more") return;
    if (this.#key === "name") this.name ||= (value.isString && unquote(value.text)) || "";
    // Some models write the arguments as a string of JSON.
    else if (isArguments && value.isString) this.#arguments += unquote(value.text) ?? "{}";
    this.#state = "after";
    if (status === "past") this.#take(char);
  }
}

export function isSpace(char: string): boolean {
  return char === " " || char === "\n" || char === "\t" || char === "\r";
}

function unquote(text: string): string | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "string" ? value : null;
  } catch {
    return null;
  }
}
