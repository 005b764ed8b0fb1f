// Which beginnings prompts have in common, and how often: the pages of the last requests, counted. A page's name stands for all the tokens
// up to its end, so counting pages counts prefixes.

import type { PrefixPicture } from "./picture.js";

/** With the name of the run's last page, and the first of its own tokens. */
export interface HotPrefix extends PrefixPicture {
  readonly key: number;
  readonly tokens: readonly number[];
}

interface Page {
  readonly model: string;
  readonly parent: number | null;
  /** One of the prompts that have it, and where it ends there. */
  readonly prompt: Int32Array;
  readonly end: number;
  requests: number;
  hits: number;
}

/** Pages remembered: those of requests that came least recently are forgotten first. */
const MAX_PAGES = 8192;
/** Of one prompt: what many have in common is at its beginning. */
const MAX_DEPTH = 512;
const MAX_SHOWN_TOKENS = 64;

export class PrefixHeat {
  readonly #pages = new Map<number, Page>(); // by name, least recently asked for first

  /** A prompt whose pages have these names goes where the first `numHeld` of them are held. */
  note(model: string, prompt: Int32Array, pageSize: number, keys: readonly number[], numHeld: number): void {
    const depth = Math.min(keys.length, MAX_DEPTH);
    for (let i = 0; i < depth; i++) {
      const key = keys[i]!;
      const known = this.#pages.get(key);
      const page = known ?? {
        model,
        parent: keys[i - 1] ?? null,
        prompt,
        end: (i + 1) * pageSize,
        requests: 0,
        hits: 0,
      };
      page.requests++;
      if (i < numHeld) page.hits++;
      if (known !== undefined) this.#pages.delete(key);
      this.#pages.set(key, page);
    }
    for (const key of this.#pages.keys()) {
      if (this.#pages.size <= MAX_PAGES) break;
      this.#pages.delete(key);
    }
  }

  /** Those that most prompt tokens of requests began with. */
  hottest(count: number): HotPrefix[] {
    const next = new Map<number, number>(); // requests of the most common page after each
    for (const { parent, requests } of this.#pages.values())
      if (parent !== null) next.set(parent, Math.max(next.get(parent) ?? 0, requests));
    const isEnd = (key: number, { requests }: Page): boolean => requests > 1 && (next.get(key) ?? 0) < requests;
    const ends = [...this.#pages].filter(([key, page]) => isEnd(key, page));
    ends.sort(([, a], [, b]) => b.requests * b.end - a.requests * a.end || b.requests - a.requests);
    return ends.slice(0, count).map(([key, { model, parent, prompt, end, requests, hits }]) => {
      let before = parent;
      for (let page = this.#page(before); page !== null && !isEnd(before!, page); page = this.#page(before))
        before = page.parent;
      const from = this.#page(before)?.end ?? 0;
      const tokens = [...prompt.subarray(from, Math.min(end, from + MAX_SHOWN_TOKENS))];
      return { model, key, from, to: end, tokens, requests, hits };
    });
  }

  #page(key: number | null): Page | null {
    return key === null ? null : (this.#pages.get(key) ?? null);
  }
}
