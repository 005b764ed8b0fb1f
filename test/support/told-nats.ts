// A connection to NATS of which a test says what comes over it.

type Callback = (error: Error | null, message: { data: Uint8Array; subject: string }) => void;

/** A connection on which nothing travels by itself. */
export class ToldNats {
  readonly published: [subject: string, text: string][] = [];
  readonly callbacks = new Map<string, Callback>();
  readonly unsubscribed: string[] = [];
  info: { max_payload: number } | undefined = { max_payload: 200 };
  state: "open" | "draining" | "closed" = "open";
  numClosed = 0;
  drainError: Error | null = null;
  #status: string[] = [];
  #wake = (): void => undefined;

  isClosed = (): boolean => this.state === "closed";
  isDraining = (): boolean => this.state === "draining";
  publish = (subject: string, bytes: Uint8Array): void => {
    if (subject === "" || /\s/.test(subject)) throw new Error(`invalid subject: ${subject}`); // as the real one does
    this.published.push([subject, Buffer.from(bytes).toString()]);
  };

  subscribe(subject: string, { callback }: { callback: Callback }): { unsubscribe(): void } {
    this.callbacks.set(subject, callback);
    return { unsubscribe: () => void this.unsubscribed.push(subject) };
  }

  async *status(): AsyncGenerator<{ type: string }> {
    for (;;) {
      for (const type of this.#status.splice(0)) yield { type };
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  tell(type: string): void {
    this.#status.push(type);
    this.#wake();
  }

  drain(): Promise<void> {
    return this.drainError === null ? Promise.resolve() : Promise.reject(this.drainError);
  }

  async close(): Promise<void> {
    this.numClosed++;
  }

  /** What was published since the last time. */
  taken(): [subject: string, text: string][] {
    return this.published.splice(0);
  }
}
