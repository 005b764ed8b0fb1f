// Which unknown fields have been told of already: each is logged once, not with every request that carries it.

const MAX_NAMES = 1000;
/** Of a name that a client made up. */
const MAX_CHARS = 80;

export class SeenFields {
  readonly #names = new Set<string>();

  /** Those that are new at this path. Once very many have been seen, none is. */
  add(path: string, fields: readonly string[]): string[] {
    return fields.flatMap((field) => {
      const name = field.slice(0, MAX_CHARS);
      const key = `${path} ${name}`;
      if (this.#names.has(key) || this.#names.size >= MAX_NAMES) return [];
      this.#names.add(key);
      return [name];
    });
  }
}
