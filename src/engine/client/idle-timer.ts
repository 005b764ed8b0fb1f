// Fires after a time without calls. It counts from the end of the last one; questions that only look do not lengthen it.

const RETRY_MS = 1000;

export class IdleTimer {
  readonly #onIdle: () => boolean;
  #seconds: number | null;
  #timer: NodeJS.Timeout | null = null;
  #sinceMs = performance.now();
  #isBusy = true;

  /** `seconds`: null is never. `onIdle` returns false where it could not do what there is to do: it is called again. */
  constructor(seconds: number | null, onIdle: () => boolean) {
    this.#seconds = seconds;
    this.#onIdle = onIdle;
  }

  /** When it is idle for long enough as things are; null: never. */
  get endMs(): number | null {
    return this.#seconds === null || this.#isBusy ? null : this.#sinceMs + 1000 * this.#seconds;
  }

  set(seconds: number | null): void {
    this.#seconds = seconds;
    this.#sinceMs = performance.now(); // who says so thinks of now
    this.#arm();
  }

  mark(isBusy: boolean): void {
    if (isBusy === this.#isBusy) return;
    this.#isBusy = isBusy;
    if (!isBusy) this.#sinceMs = performance.now();
    this.#arm();
  }

  stop(): void {
    this.#isBusy = true;
    this.#arm();
  }

  #arm(): void {
    clearTimeout(this.#timer ?? undefined);
    this.#timer = null;
    const { endMs } = this;
    if (endMs !== null) this.#wait(Math.max(0, endMs - performance.now()));
  }

  #wait(ms: number): void {
    this.#timer = setTimeout(
      () => {
        if (!this.#onIdle()) this.#wait(RETRY_MS);
      },
      Math.min(ms, 2 ** 31 - 1),
    );
    this.#timer.unref();
  }
}
