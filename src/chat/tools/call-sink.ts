// Where parsers put what they find: text and calls with running indices, as events. A call without a name is none, since no client can
// answer a call of nothing: parsers read it as any other, and show its text.

import type { ToolEvent } from "./tool-format.js";

export class CallSink {
  #events: ToolEvent[] = [];
  #index = -1;
  #isAfterCall = false;
  #isNameless = false;
  #held = "";
  #heldBesideCall = "";

  get numCalls(): number {
    return this.#index + 1;
  }

  /** Nothing was shown since the last call. */
  get isAfterCall(): boolean {
    return this.#isAfterCall;
  }

  /** The call under way has no name. */
  get isNameless(): boolean {
    return this.#isNameless;
  }

  /** White space beside a call separates; elsewhere it is text. */
  text(text: string): void {
    if (text === "") return;
    this.hold(text);
    this.release();
  }

  /** Text, unless a call comes next; `besideCall` is the part of it that is text even then. */
  hold(text: string, besideCall = ""): void {
    this.#held += text;
    this.#heldBesideCall += besideCall;
  }

  /** What is held is text. */
  release(): void {
    this.#show(this.#held);
    this.forget();
  }

  /** What is held is nothing. */
  forget(): void {
    this.#held = "";
    this.#heldBesideCall = "";
  }

  reasoning(text: string): void {
    if (text !== "") this.#events.push({ kind: "reasoning", text });
  }

  /** Whether it is one: without a name it is not, and its arguments are dropped. */
  call(name: string): boolean {
    this.#isNameless = name.trim() === "";
    if (this.#isNameless) return false;
    this.#show(this.#heldBesideCall);
    this.forget();
    this.#isAfterCall = true;
    this.#events.push({ kind: "call", index: ++this.#index, name });
    return true;
  }

  /** More of the last call's arguments. */
  arguments(text: string): void {
    if (text !== "" && !this.#isNameless) this.#events.push({ kind: "arguments", index: this.#index, text });
  }

  /** The call under way is over. */
  endCall(): void {
    this.#isNameless = false;
  }

  take(): ToolEvent[] {
    const events = this.#events;
    this.#events = [];
    return events;
  }

  #show(text: string): void {
    const shown = this.#isAfterCall ? text.trimStart() : text;
    if (shown === "") return;
    this.#isAfterCall = false;
    this.#events.push({ kind: "text", text: shown });
  }
}
