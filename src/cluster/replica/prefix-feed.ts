// A replica's side of the prefix directory: which prefixes its engine came to hold or lost, published for all routers; and all of them, for
// one that comes late or has missed something.

import { CHANGE_WORDS, type PrefixChange, prefixKey } from "../../cache/prefix-journal.js";
import type { Mailbox } from "../bus/mailbox.js";
import { type PrefixMessage, wordsToText } from "../bus/wire.js";

export class PrefixFeed {
  readonly #mailbox: Mailbox;
  /** First two words of the identities held, by the name made of them. */
  readonly #held = new Map<number, readonly [number, number]>();
  #epoch = 0;
  #seq = 0;

  constructor(mailbox: Mailbox) {
    this.#mailbox = mailbox;
  }

  get numHeld(): number {
    return this.#held.size;
  }

  /** Leading pages of a prompt that are held, by their names. */
  numLeading(keys: readonly number[]): number {
    let count = 0;
    while (count < keys.length && this.#held.has(keys[count]!)) count++;
    return count;
  }

  take({ isSnapshot, changes }: PrefixChange): void {
    if (isSnapshot) {
      // A new engine: nothing that was said before holds.
      this.#held.clear();
      this.#epoch = Math.max(Date.now(), this.#epoch + 1);
      this.#seq = -1;
    }
    for (let at = 0; at < changes.length; at += CHANGE_WORDS) {
      const words = [changes[at + 1]!, changes[at + 2]!] as const;
      const key = prefixKey(...words);
      if (changes[at] === 1) this.#held.set(key, words);
      else this.#held.delete(key);
    }
    this.#seq++;
    this.#mailbox.publish(this.#mailbox.subjects.prefixes(this.#mailbox.member), this.#message(isSnapshot, changes));
  }

  /** All that is held, for one router. */
  tell(router: string): void {
    const changes = new Int32Array(this.#held.size * CHANGE_WORDS);
    let at = 0;
    for (const [first, second] of this.#held.values()) {
      changes.set([1, first, second], at);
      at += CHANGE_WORDS;
    }
    this.#mailbox.send(router, this.#message(true, changes));
  }

  #message(isSnapshot: boolean, changes: Int32Array): PrefixMessage {
    return { type: "prefixes", epoch: this.#epoch, seq: this.#seq, isSnapshot, changes: wordsToText(changes) };
  }
}
