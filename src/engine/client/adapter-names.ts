// The adapters that requests may name, as the caller's thread knows them. The engine's thread keeps none of it: each call takes its
// adapter's path along, so that a thread that is started again loads what it needs.

import type { AdapterFacts, AdapterRef } from "../../adapters/adapter.js";
import { errorFor, RequestError } from "../../core/errors.js";
import type { Loaded } from "../messages.js";
import type { AdapterChoice, AdapterInfo } from "../types.js";

interface Named {
  readonly ref: AdapterRef;
  /** null: it is being loaded for the first time. */
  facts: AdapterFacts | null;
}

const MAX_SCALE = 1000;

export class AdapterNames {
  readonly #named = new Map<string, Named>();

  list(): AdapterInfo[] {
    return [...this.#named.values()].flatMap(({ ref: { name, path, isPinned }, facts }) => {
      return facts === null ? [] : [{ name, path, isPinned, ...facts }];
    });
  }

  /** The name is taken from now on, and free again when the adapter cannot be loaded. */
  async load(ref: AdapterRef, load: (ref: AdapterRef) => Promise<Loaded>): Promise<AdapterInfo> {
    const { name, path, isPinned } = ref;
    if (typeof name !== "string" || name === "") throw invalid("name", name, "a non-empty string");
    if (typeof path !== "string" || path === "") throw invalid("path", path, "a folder");
    const taken = this.#named.get(name);
    if (taken !== undefined) throw new RequestError("adapter_taken", { value: name, path: taken.ref.path });
    const named: Named = { ref, facts: null };
    this.#named.set(name, named);
    try {
      const loaded = await load(ref);
      if ("error" in loaded) throw errorFor(loaded.error.code, loaded.error.details);
      named.facts = loaded.facts;
      return { name, path, isPinned, ...loaded.facts };
    } catch (error) {
      this.#named.delete(name);
      throw error;
    }
  }

  /** These are all there are: they lie elsewhere, and their paths mean nothing here. */
  replace(adapters: readonly AdapterInfo[]): void {
    this.#named.clear();
    for (const { name, path, isPinned, ...facts } of adapters)
      this.#named.set(name, { ref: { name, path, isPinned, scale: 1 }, facts });
  }

  remove(name: string): void {
    if (!this.#named.delete(name)) throw this.#unknown(name);
  }

  refOf(choice: AdapterChoice): AdapterRef {
    const { name, scale = 1 } = typeof choice === "string" ? { name: choice } : choice;
    const named = this.#named.get(name);
    if (named === undefined || named.facts === null) throw this.#unknown(name);
    if (typeof scale !== "number" || !(Math.abs(scale) <= MAX_SCALE))
      throw invalid("adapter.scale", scale, `a number from ${-MAX_SCALE} to ${MAX_SCALE}`);
    return scale === named.ref.scale ? named.ref : { ...named.ref, scale };
  }

  #unknown(name: string): RequestError {
    const known = this.list()
      .map((info) => info.name)
      .join(", ");
    return new RequestError("adapter_unknown", { value: String(name), known: known || "none" });
  }
}

function invalid(param: string, value: unknown, expected: string): RequestError {
  return new RequestError("invalid_value", { param, value: String(value), expected });
}
