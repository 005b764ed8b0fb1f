// Members of a cluster that share a secret (clusterSecret) seal what they say: whoever else is on the bus can neither speak for a member, nor
// change what one says, nor say it again. What is sealed stays readable to all; TLS and NATS's permissions keep it from others. A member that has
// just started cannot know what was said before: it refuses what is older than five minutes, so members' clocks must agree to that.

import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

const MARK = "!".charCodeAt(0);
const MAC_LEN = 43; // base64url of 32 bytes
/** Senders that are remembered, by place; the one that has been silent for longest is forgotten first. */
const MOST_SENDERS = 4096;
/** More than a third of the longest lease: an entry in the bucket is up to that old. */
const MAX_AGE_MS = 300_000;

export class Seal {
  readonly #secret: string | null;
  readonly #boot = randomBytes(9).toString("base64url");
  #numSealed = 0;
  readonly #last = new Map<string, number>(); // by place and a sender's boot: the last number it used there

  constructor(secret: string | null) {
    this.#secret = secret;
  }

  /** What is not sealed counts for nothing. */
  get isRequired(): boolean {
    return this.#secret !== null;
  }

  /** "!", the code, the sender's boot, its number, its clock, a line's end, the bytes. As they are where there is no secret. */
  close(place: string, bytes: Uint8Array): Uint8Array {
    if (this.#secret === null) return bytes;
    const head = `${this.#boot} ${++this.#numSealed} ${Date.now()}\n`;
    return Buffer.concat([Buffer.from(`!${this.#mac(place, head, bytes)}${head}`), bytes]);
  }

  /** The bytes; null: not by a member, for another place, said before, or too long ago. */
  open(place: string, sealed: Uint8Array): Uint8Array | null {
    return this.#read(place, sealed, 1);
  }

  /** The same of what stays where it was put: the last that was said may be read again. */
  read(place: string, sealed: Uint8Array): Uint8Array | null {
    return this.#read(place, sealed, 0);
  }

  #read(place: string, sealed: Uint8Array, minAhead: number): Uint8Array | null {
    if (this.#secret === null) return sealed[0] === MARK ? null : sealed;
    const end = sealed.indexOf(10);
    if (sealed[0] !== MARK || end < MAC_LEN) return null;
    const bytes = sealed.subarray(end + 1);
    const text = Buffer.from(sealed.subarray(1, end + 1)).toString("latin1");
    const [given, head] = [text.slice(0, MAC_LEN), text.slice(MAC_LEN)];
    if (!isSame(given, this.#mac(place, head, bytes))) return null;
    const [boot, number, sealedMs] = head.trimEnd().split(" ");
    if (Math.abs(Date.now() - Number(sealedMs)) > MAX_AGE_MS) return null;
    return this.#isAhead(`${place} ${boot}`, Number(number), minAhead) ? bytes : null;
  }

  /** The code of bytes that go another way than over NATS; "" where there is no secret. */
  codeOf(place: string, bytes: Uint8Array): string {
    return this.#secret === null ? "" : this.#mac(place, "", bytes);
  }

  isCodeOf(code: string, place: string, bytes: Uint8Array): boolean {
    return isSame(code, this.codeOf(place, bytes));
  }

  #isAhead(sender: string, number: number, minAhead: number): boolean {
    if (number < (this.#last.get(sender) ?? 0) + minAhead) return false;
    this.#last.delete(sender);
    if (this.#last.size === MOST_SENDERS) this.#last.delete(this.#last.keys().next().value!);
    this.#last.set(sender, number);
    return true;
  }

  #mac(place: string, head: string, bytes: Uint8Array): string {
    return createHmac("sha256", this.#secret!).update(`${place}\n${head}`).update(bytes).digest("base64url");
  }
}

/** As UTF-8, letters that no code has would be more bytes than it has, which timingSafeEqual throws at. */
function isSame(given: string, code: string): boolean {
  return given.length === code.length && timingSafeEqual(Buffer.from(given, "latin1"), Buffer.from(code, "latin1"));
}
