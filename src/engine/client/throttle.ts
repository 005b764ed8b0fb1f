// Sharing a thread: many small pieces of work in a row are one long one to everybody else. Each says how large it is, and waits for
// the event loop's next turn once this one has had enough.

export class Throttle {
  readonly #most: number;
  #left: number;
  #next: Promise<void> | null = null;

  constructor(most: number) {
    this.#most = most;
    this.#left = most;
  }

  async acquire(size: number): Promise<void> {
    while (this.#left <= 0) await this.#turn();
    this.#left -= size;
  }

  #turn(): Promise<void> {
    this.#next ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#left = this.#most;
        this.#next = null;
        resolve();
      });
    });
    return this.#next;
  }
}
