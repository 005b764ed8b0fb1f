// Questions to the engine's thread that it has not answered yet.

interface Question {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

export class Replies {
  readonly #open = new Map<number, Question>();
  #numAsked = 0;

  get isEmpty(): boolean {
    return this.#open.size === 0;
  }

  /** `post` sends the question under its number. */
  ask<T>(post: (seq: number) => void): Promise<T> {
    const seq = this.#numAsked++;
    return new Promise((resolve, reject) => {
      this.#open.set(seq, { resolve: resolve as (value: unknown) => void, reject });
      post(seq);
    });
  }

  resolve(seq: number, value: unknown): void {
    this.#open.get(seq)?.resolve(value);
    this.#open.delete(seq);
  }

  /** Nobody is left to answer. */
  rejectAll(error: Error): void {
    for (const question of this.#open.values()) question.reject(error);
    this.#open.clear();
  }
}
