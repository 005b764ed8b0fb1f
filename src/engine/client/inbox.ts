// Messages of a thread, handled in turns of the event loop. A port hands over what has come and what comes meanwhile, up to a thousand
// messages in a row: with an engine faster than its readers nothing else would run, no timer, no socket, no new request.

export class Inbox<Message> {
  readonly #handle: (message: Message) => void;
  #waiting: Message[] = [];
  #turn: NodeJS.Immediate | undefined;

  constructor(handle: (message: Message) => void) {
    this.#handle = handle;
  }

  push(message: Message): void {
    this.#waiting.push(message);
    this.#turn ??= setImmediate(() => this.flush());
  }

  /** Handles all that has come before any reader runs: who is behind takes several steps' tokens in one piece. */
  flush(): void {
    clearImmediate(this.#turn);
    this.#turn = undefined;
    const messages = this.#waiting;
    this.#waiting = [];
    for (const message of messages) this.#handle(message);
  }
}
