// What is typed in a chat, message by message. At a terminal a paste of several lines is one message (bracketed paste), and what is typed
// while an answer comes is kept for afterwards instead of being echoed into it. From a pipe every line is one.

import { createInterface, type Interface } from "node:readline";
import { Writable } from "node:stream";

const PASTE_ON = "\x1b[?2004h";
const PASTE_OFF = "\x1b[?2004l";

export interface Typed {
  readonly text: string;
  /** Several lines at once: all of them are the message. */
  readonly isPasted: boolean;
}

export class LineInput {
  readonly #terminal: Interface;
  readonly #screen: Screen | null;
  readonly #typed: Typed[] = [];
  readonly #pasted: string[] = [];
  #isPasting = false;
  #isClosed = false;
  #wake: () => void = () => undefined;

  /** `onInterrupt`: Ctrl-C. */
  constructor(onInterrupt: () => void) {
    const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
    this.#screen = isTerminal ? new Screen() : null;
    this.#terminal = createInterface({
      input: process.stdin,
      output: this.#screen ?? process.stdout,
      terminal: isTerminal,
    });
    this.#terminal.on("line", (line) => this.#onLine(line));
    this.#terminal.on("SIGINT", onInterrupt);
    this.#terminal.on("close", () => {
      if (isTerminal) process.stdout.write(PASTE_OFF);
      this.#isClosed = true;
      this.#wake();
    });
    if (!isTerminal) return;
    process.stdin.on("keypress", (_text, key: { readonly name?: string } | undefined) => {
      if (key?.name === "paste-start") this.#isPasting = true;
      else if (key?.name === "paste-end") this.#isPasting = false;
    });
    process.stdout.write(PASTE_ON);
  }

  #onLine(line: string): void {
    if (this.#isPasting) {
      this.#pasted.push(line);
      this.#terminal.setPrompt(". ");
      this.#terminal.prompt();
      return;
    }
    const lines = [...this.#pasted.splice(0), line];
    this.#typed.push({ text: lines.join("\n"), isPasted: lines.length > 1 });
    this.#wake();
  }

  /** The next message; null: there is no more. Until then nothing that is typed is shown; `prompt` stands before it. */
  async next(prompt: string): Promise<Typed | null> {
    this.#screen?.show(true);
    const early = this.#typed[0];
    if (early !== undefined && this.#screen !== null) process.stdout.write(`${prompt}${early.text}\n`);
    else this.prompt(prompt);
    while (this.#typed.length === 0 && !this.#isClosed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    this.#screen?.show(false);
    return this.#typed.shift() ?? null;
  }

  /** Shows the prompt, and what was typed since. */
  prompt(text: string): void {
    this.#terminal.setPrompt(text);
    if (!this.#isClosed) this.#terminal.prompt(true);
  }

  /** Nothing is typed or pasted that was not sent. */
  get isEmpty(): boolean {
    return this.#pasted.length === 0 && this.#terminal.line === "";
  }

  /** Forgets what is typed and not sent: it stays on the screen, as in a shell. */
  clear(): void {
    this.#pasted.length = 0;
    this.#terminal.write(null, { ctrl: true, name: "e" });
    this.#terminal.write(null, { ctrl: true, name: "u" });
  }

  close(): void {
    this.#terminal.close();
  }
}

/** Standard output for the line editor: drops what it writes while an answer has the screen. */
class Screen extends Writable {
  readonly isTTY = true;
  #isShown = true;

  constructor() {
    super();
    process.stdout.on("resize", () => this.emit("resize"));
  }

  get columns(): number {
    return process.stdout.columns;
  }

  get rows(): number {
    return process.stdout.rows;
  }

  show(isShown: boolean): void {
    this.#isShown = isShown;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    if (this.#isShown) process.stdout.write(chunk);
    done();
  }
}
