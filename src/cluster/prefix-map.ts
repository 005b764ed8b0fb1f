// A router's side of the prefix directory: which replica holds how much of a prompt. Hints, never proof: a replica that does not hold
// what is said of it computes it.
//
// Beside what replicas publish there is what this router expects: the pages of a prompt it has just sent will be there soon. Without it,
// a burst of requests with one prefix would be sent all over the cluster before the first page is published.

import { HASH_WORDS, hashPage, hashSalt } from "../cache/page-hash.js";
import { CHANGE_WORDS, prefixKey } from "../cache/prefix-journal.js";
import { type PrefixMessage, textToWords } from "./wire.js";

/** How long pages are expected where they were sent to be computed. */
const EXPECTED_MS = 10_000;
const MAX_EXPECTED = 4096;

class Held {
  epoch = -1;
  seq = -1;
  readonly keys = new Set<number>();
  readonly expected = new Map<number, number>(); // until when; oldest first

  has(key: number, nowMs: number): boolean {
    return this.keys.has(key) || (this.expected.get(key) ?? 0) > nowMs;
  }
}

export class PrefixMap {
  readonly #replicas = new Map<string, Held>();
  readonly #askFor: (replica: string) => void;

  /** `askFor` asks a replica for all that it holds. */
  constructor(askFor: (replica: string) => void) {
    this.#askFor = askFor;
  }

  /** A replica is there; nothing is known of it yet. */
  open(replica: string): void {
    if (this.#replicas.has(replica)) return;
    this.#replicas.set(replica, new Held());
    this.#askFor(replica);
  }

  drop(replica: string): void {
    this.#replicas.delete(replica);
  }

  take(replica: string, { epoch, seq, isSnapshot, changes }: PrefixMessage): void {
    const held = this.#replicas.get(replica);
    if (held === undefined) return;
    const isNext = epoch === held.epoch && seq === held.seq + 1;
    if (epoch < held.epoch || (epoch === held.epoch && seq <= held.seq)) return; // old news
    if (!isSnapshot && !isNext) {
      this.#askFor(replica); // something was missed
      return;
    }
    if (isSnapshot) held.keys.clear();
    held.epoch = epoch;
    held.seq = seq;
    const words = textToWords(changes);
    for (let at = 0; at + CHANGE_WORDS <= words.length; at += CHANGE_WORDS) {
      const key = prefixKey(words[at + 1]!, words[at + 2]!);
      if (words[at] === 1) held.keys.add(key);
      else {
        held.keys.delete(key);
        held.expected.delete(key);
      }
    }
  }

  /** Leading pages of `keys` that the replica holds, or is about to. */
  numHeld(replica: string, keys: readonly number[], nowMs: number): number {
    const held = this.#replicas.get(replica);
    if (held === undefined) return 0;
    let count = 0;
    while (count < keys.length && held.has(keys[count]!, nowMs)) count++;
    return count;
  }

  /** The replica is about to compute these pages. */
  expect(replica: string, keys: readonly number[], nowMs: number): void {
    const held = this.#replicas.get(replica);
    if (held === undefined) return;
    for (const key of keys) {
      held.expected.delete(key);
      held.expected.set(key, nowMs + EXPECTED_MS);
    }
    for (const [key, untilMs] of held.expected) {
      if (held.expected.size <= MAX_EXPECTED && untilMs > nowMs) break;
      held.expected.delete(key);
    }
  }

  /** Pages that the replica says it holds. */
  numPages(replica: string): number {
    return this.#replicas.get(replica)?.keys.size ?? 0;
  }
}

/** The names of a prompt's pages. The last token is always computed, so a page that ends with it is of no use. */
export function pageKeys(prompt: Int32Array, salt: string, pageSize: number): number[] {
  const numPages = Math.floor((prompt.length - 1) / pageSize);
  const hash = new Int32Array(HASH_WORDS);
  hashSalt(hash, 0, salt);
  return Array.from({ length: numPages }, (_, page) => {
    hashPage(hash, 0, hash, 0, prompt, page * pageSize, pageSize);
    return prefixKey(hash[0]!, hash[1]!);
  });
}
