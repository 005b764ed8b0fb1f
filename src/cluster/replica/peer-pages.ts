// Prefixes that move between replicas: fetched for a request that came here without them, and given away before a replica ends. Whatever
// goes wrong, the request is computed: a transfer can only save time.

import { randomBytes } from "node:crypto";
import type { RelayEngine } from "../../engine/client/relay.js";
import type { Mailbox } from "../bus/mailbox.js";
import type { ToReplica } from "../bus/wire.js";
import { pageKeys } from "../router/prefix-map.js";
import type { PagePort } from "./page-port.js";
import type { PrefixFeed } from "./prefix-feed.js";

/** Most bytes of one transfer. */
const MAX_BYTES = 256 * 2 ** 20;
/** How long a peer may take to answer whether it lends. */
const ASK_MS = 2000;
const NO_PROMPT = new Int32Array(0);

export interface PeerCounts {
  /** Pages that came from others. */
  numFetched: number;
  fetchedBytes: number;
  numFailed: number;
}

export class PeerPages {
  readonly counts: PeerCounts = { numFetched: 0, fetchedBytes: 0, numFailed: 0 };
  readonly #engine: RelayEngine;
  readonly #mailbox: Mailbox;
  readonly #port: PagePort;
  readonly #feed: PrefixFeed;
  readonly #addressOf: (id: string) => string | null;
  readonly #asked = new Map<string, { peer: string; answer: (url: string | null) => void }>(); // by id

  /** `addressOf`: where a member lends its pages, by what it registered; null: it is not known, or lends none. */
  constructor(
    engine: RelayEngine,
    mailbox: Mailbox,
    port: PagePort,
    feed: PrefixFeed,
    addressOf: (id: string) => string | null,
  ) {
    this.#addressOf = addressOf;
    this.#engine = engine;
    this.#mailbox = mailbox;
    this.#port = port;
    this.#feed = feed;
  }

  /** Gets the prompt's pages that are not here from a peer that has them. Never rejects. */
  async fetch(peer: string, prompt: Int32Array, salt: string): Promise<void> {
    const firstPage = this.#feed.numLeading(pageKeys(prompt, salt, this.#engine.facts.pageSize));
    try {
      const { identity } = this.#engine.facts;
      const url = await this.#ask(peer, { type: "lend", identity, prompt: Array.from(prompt), salt, firstPage });
      await this.#take(peer, url, prompt, salt);
    } catch {
      this.counts.numFailed++;
    }
  }

  /** Offers the hottest prefixes to a peer; resolves when it has had the time to fetch them. */
  async giveAway(peer: string, ms: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      const url = this.#port.offer(async () => {
        const bytes = await this.#engine.lendPages(NO_PROMPT, "", 0, MAX_BYTES);
        setImmediate(resolve);
        return bytes;
      });
      this.#mailbox.send(peer, { type: "offer", identity: this.#engine.facts.identity, url });
      timer = setTimeout(resolve, ms);
    });
    clearTimeout(timer);
  }

  /** What a peer says. Pages of another identity are neither given nor taken, whatever a router believes of it. */
  hear(message: Extract<ToReplica, { type: "lend" | "lent" | "offer" }>, from: string): void {
    if (message.type === "lent") {
      const asked = this.#asked.get(message.id);
      if (asked?.peer === from) asked.answer(message.url);
      return;
    }
    const isAlike = message.identity === this.#engine.facts.identity;
    if (message.type === "offer") {
      if (!isAlike) return;
      void this.#take(from, message.url, NO_PROMPT, "").catch(() => {
        this.counts.numFailed++;
      });
    } else {
      const { id, prompt, salt, firstPage } = message;
      const lend = () => this.#engine.lendPages(Int32Array.from(prompt), salt, firstPage, MAX_BYTES);
      const url = isAlike ? this.#port.offer(lend) : null;
      this.#mailbox.send(from, { type: "lent", id, url });
    }
  }

  /** From where the peer registered, and from nowhere else. */
  async #take(peer: string, url: string, prompt: Int32Array, salt: string): Promise<void> {
    const address = this.#addressOf(peer);
    if (address === null || !url.startsWith(`${address}/`)) throw new Error(`${peer} lends its pages elsewhere`);
    const bytes = await this.#port.fetch(url, MAX_BYTES);
    const { numTaken, reason } = await this.#engine.takePages(prompt, salt, bytes);
    this.counts.numFetched += numTaken;
    this.counts.fetchedBytes += bytes.length;
    if (reason !== null) this.counts.numFailed++;
  }

  #ask(peer: string, message: object): Promise<string> {
    const id = randomBytes(12).toString("base64url");
    return new Promise<string>((resolve, reject) => {
      const timer = setTimeout(reject, ASK_MS, new Error("the peer does not answer"));
      const answer = (url: string | null): void => {
        clearTimeout(timer);
        if (url === null) reject(new Error("the peer lends nothing: its engine is another"));
        else resolve(url);
      };
      this.#asked.set(id, { peer, answer });
      this.#mailbox.send(peer, { ...message, id });
    }).finally(() => this.#asked.delete(id));
  }
}
