// A router's side of the prefix directory: which replica holds how much of a prompt. Hints, never proof: a replica that does not hold
// what is said of it computes it.
//
// Beside what replicas publish there is what this router expects: the pages of a prompt it has just sent will be there soon. Without it,
// a burst of requests with one prefix would be sent all over the cluster before the first page is published.
//
//   page name ─> the replicas that hold it, or are about to      one walk over a prompt's pages finds what every replica holds of it
//   replica   ─> its pages                                       so that those of one that leaves are forgotten

import { HASH_WORDS, hashSalt, identifyPage } from "../../cache/page-hash.js";
import { CHANGE_WORDS, prefixKey } from "../../cache/prefix-journal.js";
import { type MediumSpan, NO_MEDIA } from "../../core/media.js";
import { type PrefixMessage, textToWords } from "../bus/wire.js";

/** How long pages are expected where they were sent to be computed. */
const EXPECTED_MS = 10_000;
const MAX_EXPECTED = 4096;

class Held {
  epoch = -1;
  seq = -1;
  readonly keys = new Set<number>();
  readonly expected = new Map<number, number>(); // until when; oldest first; none that is in keys
  /** When the oldest of them is expected no more. */
  expiryMs = Number.POSITIVE_INFINITY;
  /** Leading pages of the prompt that is being matched. */
  numMatched = 0;

  /** It holds this page of the prompt: that counts unless one before it is missing. */
  match(page: number): void {
    if (this.numMatched === page) this.numMatched++;
  }
}

export class PrefixMap {
  readonly #replicas = new Map<string, Held>();
  readonly #holders = new Map<number, Held | Held[]>(); // of each page in some replica's keys or expected; most have one
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
    const held = this.#replicas.get(replica);
    if (held === undefined) return;
    this.#replicas.delete(replica);
    this.#forgetKeys(held);
    for (const key of held.expected.keys()) this.#removeHolder(key, held);
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
    if (isSnapshot) this.#forgetKeys(held);
    held.epoch = epoch;
    held.seq = seq;
    const words = textToWords(changes);
    for (let at = 0; at + CHANGE_WORDS <= words.length; at += CHANGE_WORDS) {
      const key = prefixKey(words[at + 1]!, words[at + 2]!);
      const wasKnown = held.expected.delete(key) || held.keys.has(key);
      if (words[at] === 1) {
        held.keys.add(key);
        if (!wasKnown) this.#addHolder(key, held);
      } else {
        held.keys.delete(key);
        if (wasKnown) this.#removeHolder(key, held);
      }
    }
  }

  /** Leading pages of `keys` that each replica holds, or is about to; replicas that hold none are left out. */
  match(keys: readonly number[], nowMs: number): ReadonlyMap<string, number> {
    for (const held of this.#replicas.values()) {
      held.numMatched = 0;
      if (held.expiryMs <= nowMs) this.#expire(held, nowMs);
    }
    for (let page = 0; page < keys.length; page++) {
      const holders = this.#holders.get(keys[page]!);
      if (holders === undefined) break;
      if (holders instanceof Held) holders.match(page);
      else for (const held of holders) held.match(page);
    }
    const matched = new Map<string, number>();
    for (const [replica, { numMatched }] of this.#replicas) if (numMatched > 0) matched.set(replica, numMatched);
    return matched;
  }

  /** The replica is about to compute these pages. */
  expect(replica: string, keys: readonly number[], nowMs: number): void {
    const held = this.#replicas.get(replica);
    if (held === undefined) return;
    for (const key of keys) {
      if (held.keys.has(key)) continue;
      if (!held.expected.delete(key)) this.#addHolder(key, held);
      held.expected.set(key, nowMs + EXPECTED_MS);
    }
    this.#expire(held, nowMs);
  }

  /** Pages that the replica says it holds. */
  numPages(replica: string): number {
    return this.#replicas.get(replica)?.keys.size ?? 0;
  }

  /** Replicas that hold this page, or are about to. */
  numHolders(key: number): number {
    const holders = this.#holders.get(key);
    if (holders === undefined) return 0;
    return holders instanceof Held ? 1 : holders.length;
  }

  /** Forgets what was expected for too long, or is too much. */
  #expire(held: Held, nowMs: number): void {
    held.expiryMs = Number.POSITIVE_INFINITY;
    for (const [key, untilMs] of held.expected) {
      if (held.expected.size <= MAX_EXPECTED && untilMs > nowMs) {
        held.expiryMs = untilMs;
        return;
      }
      held.expected.delete(key);
      this.#removeHolder(key, held);
    }
  }

  #forgetKeys(held: Held): void {
    for (const key of held.keys) this.#removeHolder(key, held);
    held.keys.clear();
  }

  #addHolder(key: number, held: Held): void {
    const holders = this.#holders.get(key);
    if (holders === undefined) this.#holders.set(key, held);
    else if (holders instanceof Held) this.#holders.set(key, [holders, held]);
    else holders.push(held);
  }

  #removeHolder(key: number, held: Held): void {
    const holders = this.#holders.get(key)!;
    if (holders instanceof Held || holders.length === 1) this.#holders.delete(key);
    else {
      holders[holders.indexOf(held)] = holders.at(-1)!;
      holders.pop();
    }
  }
}

/** The names of a prompt's pages. The last token is always computed, so a page that ends with it is of no use. */
export function pageKeys(
  prompt: Int32Array,
  salt: string,
  pageSize: number,
  media: readonly MediumSpan[] = NO_MEDIA,
): number[] {
  const numPages = Math.floor((prompt.length - 1) / pageSize);
  const hash = new Int32Array(HASH_WORDS);
  hashSalt(hash, 0, salt);
  const keys: number[] = [];
  for (let page = 0; page < numPages; page++) {
    identifyPage(hash, 0, hash, 0, prompt, page, pageSize, media);
    keys.push(prefixKey(hash[0]!, hash[1]!));
  }
  return keys;
}
