// What members say to each other: JSON to another member's inbox subject. NATS delivers what one member sends to another in order, and
// at most once: what is lost when a connection breaks, the members find out and make good (replica.ts, routed-calls.ts). While there is no
// connection, nothing is kept to be said later.

import type { NatsConnection, Subscription } from "@nats-io/transport-node";
import { Seal } from "./seal.js";
import type { Subjects } from "./subjects.js";
import { PROTOCOL } from "./wire.js";

/** A message larger than the server takes goes as parts: "#id part numParts\n", then bytes of it. */
const PART = "#".charCodeAt(0);
const MAX_PARTS = 1024;
const HEAD_BYTES = 64;
/** A message whose parts have not all come in this time has lost some. */
const PIECES_MS = 10_000;
/** At most so often it is said that a message was not understood. */
const UNSUPPORTED_MS = 100;

interface Pieces {
  readonly from: string;
  readonly bytes: Uint8Array[];
  lastMs: number;
}

export class Mailbox {
  readonly member: string;
  readonly subjects: Subjects;
  readonly nats: NatsConnection;
  readonly seal: Seal;
  /** When it was last heard that the connection is there; null: it is not. */
  isConnected = true;
  readonly #subscriptions: Subscription[] = [];
  readonly #pieces = new Map<string, Pieces>(); // by the part's id: one message at a time of each sender
  #numSplit = 0;
  #refusedMs = Number.NEGATIVE_INFINITY;

  constructor(nats: NatsConnection, subjects: Subjects, member: string, secret: string | null = null) {
    this.seal = new Seal(secret);
    this.nats = nats;
    this.subjects = subjects;
    this.member = member;
    void this.#watchConnection();
  }

  /** Hears of every reconnection. */
  onReconnect: () => void = () => undefined;
  /** Hears of members that did not understand what was sent to them. */
  onUnsupported: (from: string) => void = () => undefined;

  send(to: string, message: object): void {
    this.publish(this.subjects.inbox(to), message);
  }

  publish(subject: string, message: object): void {
    if (!this.isConnected || this.nats.isClosed() || this.nats.isDraining()) return;
    const bytes = this.seal.close(subject, Buffer.from(JSON.stringify({ ...message, from: this.member, v: PROTOCOL })));
    const most = (this.nats.info?.max_payload ?? 2 ** 20) - HEAD_BYTES;
    if (bytes.length <= most) {
      this.nats.publish(subject, bytes);
      return;
    }
    const id = `${this.member}.${this.#numSplit++}`;
    const numParts = Math.ceil(bytes.length / most);
    for (let part = 0; part < numParts; part++) {
      const head = Buffer.from(`#${id} ${part} ${numParts}\n`);
      this.nats.publish(subject, Buffer.concat([head, bytes.subarray(part * most, (part + 1) * most)]));
    }
  }

  /** Whatever comes to a subject, whole messages only. What is not understood is dropped: nobody may end a member by what it says. */
  listen(subject: string, listener: (message: { readonly from: string }, subject: string) => void): void {
    const callback = (error: Error | null, { data, subject: at }: { data: Uint8Array; subject: string }): void => {
      if (error !== null) return;
      const whole = data[0] === PART ? this.#join(data) : data;
      const opened = whole === null ? null : this.seal.open(at, whole);
      const message = opened === null ? null : parse(opened);
      if (message === null) return;
      if (message.type === "unsupported") this.onUnsupported(message.from);
      else if (message.v === PROTOCOL) listener(message, at);
      else if (at === this.subjects.inbox(this.member)) this.#refuse(message.from);
    };
    this.#subscriptions.push(this.nats.subscribe(subject, { callback }));
  }

  async close(): Promise<void> {
    for (const subscription of this.#subscriptions) subscription.unsubscribe();
    await this.nats.drain().catch(() => this.nats.close());
  }

  #refuse(from: string): void {
    const nowMs = performance.now();
    if (nowMs - this.#refusedMs < UNSUPPORTED_MS) return;
    this.#refusedMs = nowMs;
    this.send(from, { type: "unsupported" });
  }

  #join(data: Uint8Array): Uint8Array | null {
    const end = data.indexOf(10);
    const match = /^#(([\w-]+)\.\d+) (\d+) (\d+)$/.exec(Buffer.from(data.subarray(0, Math.max(0, end))).toString());
    if (match === null) return null;
    const [, id, from, part, numParts] = match;
    if (Number(numParts) > MAX_PARTS) return null;
    const nowMs = performance.now();
    if (Number(part) === 0) {
      for (const [other, pieces] of this.#pieces)
        if (pieces.from === from || nowMs - pieces.lastMs > PIECES_MS) this.#pieces.delete(other);
      this.#pieces.set(id!, { from: from!, bytes: [], lastMs: nowMs });
    }
    const pieces = this.#pieces.get(id!);
    if (pieces === undefined || pieces.bytes.length !== Number(part)) return null; // its beginning was lost
    pieces.lastMs = nowMs;
    pieces.bytes.push(data.slice(end + 1));
    if (pieces.bytes.length < Number(numParts)) return null;
    this.#pieces.delete(id!);
    return Buffer.concat(pieces.bytes);
  }

  async #watchConnection(): Promise<void> {
    for await (const { type } of this.nats.status()) {
      if (type === "disconnect" || type === "staleConnection") this.isConnected = false;
      else if (type === "reconnect") {
        this.isConnected = true;
        this.onReconnect();
      }
    }
  }
}

/** What can stand at the end of a subject, and nothing that could stand for more than one. */
const MEMBER = /^[\w-]+$/;

interface Message {
  readonly from: string;
  readonly v?: unknown;
  readonly type?: unknown;
}

function parse(bytes: Uint8Array): Message | null {
  try {
    const message = JSON.parse(Buffer.from(bytes).toString()) as Partial<Message> | null;
    return typeof message?.from === "string" && MEMBER.test(message.from) ? (message as Message) : null;
  } catch {
    return null;
  }
}
