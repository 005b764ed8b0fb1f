// Lines to messages: a line that ends with a backslash goes on in the next one, and """ on both sides makes everything between
// them one message.

export class MultiLine {
  #lines: string[] = [];
  #isQuoted = false;

  /** Part of a message has come, and its end has not. */
  get isOpen(): boolean {
    return this.#isQuoted || this.#lines.length > 0;
  }

  /** The message that this line completes, or null while it goes on. */
  push(line: string): string | null {
    if (this.#isQuoted) {
      const end = line.indexOf('"""');
      if (end < 0) {
        this.#lines.push(line);
        return null;
      }
      this.#isQuoted = false;
      return this.#take(line.slice(0, end));
    }
    const trimmed = line.trimStart();
    if (this.#lines.length === 0 && trimmed.startsWith('"""')) {
      this.#isQuoted = true;
      const rest = trimmed.slice(3);
      return rest === "" ? null : this.push(rest);
    }
    if (line.endsWith("\\")) {
      this.#lines.push(line.slice(0, -1));
      return null;
    }
    return this.#take(line);
  }

  /** Forgets what was begun. */
  clear(): void {
    this.#lines = [];
    this.#isQuoted = false;
  }

  #take(last: string): string {
    const text = [...this.#lines, last].join("\n").trim();
    this.#lines = [];
    return text;
  }
}
