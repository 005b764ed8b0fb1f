// A map of the last keys that were set: past its capacity the one goes that was set longest ago. To set a key again is to set it last.

export class RecentMap<K, V> {
  readonly #capacity: number;
  readonly #values = new Map<K, V>(); // oldest first

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  has(key: K): boolean {
    return this.#values.has(key);
  }

  get(key: K): V | undefined {
    return this.#values.get(key);
  }

  set(key: K, value: V): void {
    this.#values.delete(key);
    this.#values.set(key, value);
    if (this.#values.size > this.#capacity) this.#values.delete(this.#values.keys().next().value!);
  }
}
