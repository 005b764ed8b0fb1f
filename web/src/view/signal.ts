// A value that tells its readers when it changes.

export class Signal<T> {
  #value: T;
  readonly #readers = new Set<(value: T) => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    this.#value = value;
    for (const read of this.#readers) read(value);
  }

  /** Calls with every later value. */
  watch(read: (value: T) => void): void {
    this.#readers.add(read);
  }
}
