// Members of a cluster that share a secret (clusterSecret) seal what they say: whoever else is on the bus can neither speak for a member, nor
// change what one says, nor say it again. What is sealed stays readable to all; TLS and NATS's permissions keep it from others.

import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

const MARK = "!".charCodeAt(0);
const MAC_LEN = 43; // base64url of 32 bytes
/** Senders that are remembered; the one that has been silent for longest is forgotten first. */
const MOST_SENDERS = 4096;

export class Seal {
  readonly #secret: string | null;
  readonly #boot = randomBytes(9).toString("base64url");
  #numSealed = 0;
  readonly #last = new Map<string, number>(); // by a sender's boot: the last number it used here

  constructor(secret: string | null) {
    this.#secret = secret;
  }

  /** "!", the code, the sender's boot, its number, a line's end, the bytes. As they are where there is no secret. */
  close(place: string, bytes: Uint8Array): Uint8Array {
    if (this.#secret === null) return bytes;
    const head = `${this.#boot} ${++this.#numSealed}\n`;
    return Buffer.concat([Buffer.from(`!${this.#mac(place, head, bytes)}${head}`), bytes]);
  }

  /** The bytes; null: not by a member, for another place, or said before. */
  open(place: string, sealed: Uint8Array): Uint8Array | null {
    return this.#read(place, sealed, true);
  }

  /** The same of what stays where it was put, and is read again and again. */
  read(place: string, sealed: Uint8Array): Uint8Array | null {
    return this.#read(place, sealed, false);
  }

  #read(place: string, sealed: Uint8Array, isOnce: boolean): Uint8Array | null {
    if (this.#secret === null) return sealed[0] === MARK ? null : sealed;
    const end = sealed.indexOf(10);
    if (sealed[0] !== MARK || end < MAC_LEN) return null;
    const bytes = sealed.subarray(end + 1);
    const text = Buffer.from(sealed.subarray(1, end + 1)).toString("latin1");
    const [given, head] = [text.slice(0, MAC_LEN), text.slice(MAC_LEN)];
    if (!isSame(given, this.#mac(place, head, bytes))) return null;
    const [boot, number] = head.trimEnd().split(" ");
    if (!isOnce) return bytes;
    return this.#isNew(boot!, Number(number)) ? bytes : null;
  }

  /** The code of bytes that go another way than over NATS; "" where there is no secret. */
  codeOf(place: string, bytes: Uint8Array): string {
    return this.#secret === null ? "" : this.#mac(place, "", bytes);
  }

  isCodeOf(code: string, place: string, bytes: Uint8Array): boolean {
    return isSame(code, this.codeOf(place, bytes));
  }

  #isNew(boot: string, number: number): boolean {
    if (number <= (this.#last.get(boot) ?? 0)) return false;
    this.#last.delete(boot);
    if (this.#last.size === MOST_SENDERS) this.#last.delete(this.#last.keys().next().value!);
    this.#last.set(boot, number);
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
