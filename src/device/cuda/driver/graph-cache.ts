// Steps whose graph can be replayed without writing their launches: found by what decides the launches, a few numbers, instead of by the
// launches themselves. Whoever queues a launch in a step takes what it depends on from the staged batch, the token buffer and the addresses
// of memory; all of that is in the key, or drops every entry when it changes (the context's generation). PAGODA_CUDA_CHECK writes the launches
// of known steps too and compares.

import type { CudaContext } from "./context.js";
import type { Graph } from "./launch-queue.js";

interface Entry {
  readonly key: Float64Array;
  graph: Graph;
}

const MOST_WORDS = 64;
const MOST_ENTRIES = 1024;

export class GraphCache {
  readonly #context: CudaContext;
  readonly #entries = new Map<number, Entry>(); // by hash
  readonly #words = new Float64Array(MOST_WORDS);
  #generation = 0;
  #numWords = 0;
  #hash = 0;
  #isOpen = false;

  constructor(context: CudaContext) {
    this.#context = context;
  }

  /** Begins a step's key. */
  begin(): void {
    this.#numWords = 0;
    this.#hash = 0;
    this.#isOpen = true;
  }

  /** No key of this step will be learned. */
  forget(): void {
    this.#isOpen = false;
  }

  /** A number that launches depend on. */
  add(value: number): this {
    this.#words[this.#numWords++] = value;
    this.#hash = Math.imul(this.#hash ^ (value | 0), 0x9e3779b1) ^ (this.#hash >>> 15);
    return this;
  }

  find(): Graph | null {
    if (this.#generation !== this.#context.generation) {
      this.#generation = this.#context.generation;
      this.#entries.clear();
      return null;
    }
    const entry = this.#entries.get(this.#hash);
    if (entry === undefined || !entry.graph.isAlive || !this.#isKeyOf(entry)) return null;
    return entry.graph;
  }

  /** All launches of the step with the key that was begun last were this graph. */
  learn(graph: Graph): void {
    if (!this.#isOpen || this.#generation !== this.#context.generation) return;
    const entry = this.#entries.get(this.#hash);
    if (entry !== undefined && this.#isKeyOf(entry)) {
      entry.graph = graph;
      return;
    }
    if (this.#entries.size >= MOST_ENTRIES) this.#entries.clear();
    const key = this.#words.slice(0, this.#numWords);
    this.#entries.set(this.#hash, { key, graph });
  }

  #isKeyOf({ key }: Entry): boolean {
    if (key.length !== this.#numWords) return false;
    for (let i = 0; i < key.length; i++) if (key[i] !== this.#words[i]) return false;
    return true;
  }
}
