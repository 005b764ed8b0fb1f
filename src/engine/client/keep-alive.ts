// The engine's thread by itself does not keep the process alive: loading does, and calls and queries under way. So a program that
// forgets close() still ends when its work is done.

const MAX_TIMEOUT_MS = 2 ** 31 - 1;

export class KeepAlive {
  #timer: NodeJS.Timeout | null = null;

  set(isBusy: boolean): void {
    if (isBusy) this.#timer ??= setInterval(() => undefined, MAX_TIMEOUT_MS);
    else {
      clearInterval(this.#timer ?? undefined);
      this.#timer = null;
    }
  }
}
