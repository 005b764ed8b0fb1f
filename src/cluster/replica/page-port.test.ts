// Pages between two members over loopback: who gets them, what is refused, what is counted.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { hostname } from "node:os";
import { test } from "node:test";
import { until } from "../../../test/support/until.js";
import type { RelayEngine } from "../../engine/client/relay.js";
import type { Mailbox } from "../bus/mailbox.js";
import { pageKeys } from "../router/prefix-map.js";
import { isLoopback, PagePort } from "./page-port.js";
import { PeerPages } from "./peer-pages.js";
import type { PrefixFeed } from "./prefix-feed.js";

const numTimers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
const open = async () => (await PagePort.open({ host: "127.0.0.1", advertise: null, tls: null }))!;

test("which hosts are this machine", () => {
  for (const host of ["localhost", "::1", "[::1]", "127.0.0.1", "127.200.30.4"]) assert.ok(isLoopback(host), host);
  for (const host of [
    "",
    "0.0.0.0",
    "128.0.0.1",
    "127.0.0",
    "127.0.0.1.2",
    "127.0.0.1000",
    "127.0.0.1.example.org",
    "::",
  ])
    assert.equal(isLoopback(host), false, host);
});

test("a port is named by what others can reach, and is there off loopback with certificates only", async () => {
  assert.equal(await PagePort.open({ host: "0.0.0.0", advertise: null, tls: null }), null);
  const tls = { ca: null, cert: "", key: "" };
  await assert.rejects(PagePort.open({ host: "192.0.2.1", advertise: null, tls }), { code: "EADDRNOTAVAIL" });
  for (const [host, advertise, certificate, origin] of [
    ["127.0.0.1", null, null, "http://127.0.0.1"],
    ["localhost", null, null, "http://localhost"],
    ["127.0.0.1", "node-7", null, "http://node-7"],
    ["127.0.0.1", "fe80::1", null, "http://[fe80::1]"],
    ["127.0.0.1", null, tls, "https://127.0.0.1"],
    ["0.0.0.0", null, tls, `https://${hostname()}`],
  ] as const) {
    const port = (await PagePort.open({ host, advertise, tls: certificate }))!;
    const url = port.offer(async () => new Uint8Array(0));
    assert.match(url.slice(origin.length), /^:\d+\/[\w-]{32}$/);
    assert.equal(url.slice(0, origin.length), origin);
    port.close();
  }
});

test("a ticket is good once, for no more bytes than were agreed; what fails, is unknown or is cut off is refused", async () => {
  const [holder, other] = [await open(), await open()];
  for (const length of [0, 1, 100_000]) {
    const bytes = Uint8Array.from({ length }, (_, i) => i % 251);
    const url = holder.offer(async () => bytes);
    assert.deepEqual(await other.fetch(url, length), bytes);
    await assert.rejects(other.fetch(url, length), /answers 404/);
  }
  await assert.rejects(
    other.fetch(
      holder.offer(async () => new Uint8Array(9)),
      8,
    ),
    /answers 200 with 9 bytes/,
  );
  await assert.rejects(
    other.fetch(
      holder.offer(() => Promise.reject(new Error("no"))),
      8,
    ),
    /answers 503/,
  );
  const cut = createServer((request, response) => {
    response.writeHead(200, request.url === "/cut" ? { "content-length": 10 } : {});
    response.write("1234", () => (request.url === "/cut" ? response.destroy() : response.end()));
  });
  await new Promise<void>((resolve) => cut.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(cut.address() as AddressInfo).port}`;
  await assert.rejects(other.fetch(`${origin}/cut`, 10));
  await assert.rejects(other.fetch(`${origin}/unsaid`, 10), /200 with NaN bytes/);
  cut.close();
  const late = holder.offer(async () => new Uint8Array(1));
  holder.close();
  await assert.rejects(other.fetch(late, 1), /ECONNREFUSED/);
  other.close();
});

/** Members whose engines write down what they are asked for, and whose words reach the other at once. */
class Peer {
  readonly pages: PeerPages;
  readonly said: Record<string, unknown>[] = [];
  readonly lent: unknown[] = [];
  readonly taken: unknown[] = [];
  bytes = Uint8Array.of(1, 2, 3);
  reason: string | null = null;
  readonly url: string;

  constructor(name: string, port: PagePort, { identity = "same", held = 1, peers = new Map<string, Peer>() } = {}) {
    const engine = {
      facts: { identity, pageSize: 2 },
      lendPages: async (prompt: Int32Array, salt: string, from: number, maxBytes: number) => {
        this.lent.push([[...prompt], salt, from, maxBytes]);
        return this.bytes;
      },
      takePages: async (prompt: Int32Array, salt: string, bytes: Uint8Array) => {
        this.taken.push([[...prompt], salt, [...bytes]]);
        return { numTaken: 2, reason: this.reason };
      },
    };
    const mailbox = {
      send: (to: string, message: Parameters<PeerPages["hear"]>[0]) => {
        this.said.push({ to, ...message });
        peers.get(to)?.pages.hear(message, name);
      },
    };
    const numLeading = (keys: number[]) => {
      assert.deepEqual(keys, pageKeys(Int32Array.of(7, 8, 9, 10, 11), "salt", 2));
      return held;
    };
    this.url = port.url;
    this.pages = new PeerPages(
      engine as unknown as RelayEngine,
      mailbox as unknown as Mailbox,
      port,
      { numLeading } as unknown as PrefixFeed,
      (id) => peers.get(id)?.url ?? null,
    );
    peers.set(name, this);
  }
}

test("a prompt's pages come from a peer that is asked for those that are not here; what fails is counted, and is no failure", async () => {
  const [here, there] = [await open(), await open()];
  const peers = new Map<string, Peer>();
  const a = new Peer("a", here, { peers });
  const b = new Peer("b", there, { peers });
  const c = new Peer("c", there, { peers, identity: "other" });
  const prompt = Int32Array.of(7, 8, 9, 10, 11);
  const before = numTimers();
  await a.pages.fetch("b", prompt, "salt");
  assert.deepEqual(a.said[0], {
    ...{
      to: "b",
      type: "lend",
      identity: "same",
      prompt: [7, 8, 9, 10, 11],
      salt: "salt",
      firstPage: 1,
      id: a.said[0]!.id,
    },
  });
  assert.deepEqual(b.lent, [[[7, 8, 9, 10, 11], "salt", 1, 256 * 2 ** 20]]);
  assert.deepEqual(a.taken, [[[7, 8, 9, 10, 11], "salt", [1, 2, 3]]]);
  assert.deepEqual(a.pages.counts, { numFetched: 2, fetchedBytes: 3, numFailed: 0 });
  a.reason = "no room";
  await a.pages.fetch("b", prompt, "salt");
  assert.notEqual(a.said[1]!.id, a.said[0]!.id);
  assert.deepEqual(a.pages.counts, { numFetched: 4, fetchedBytes: 6, numFailed: 1 });
  await a.pages.fetch("c", prompt, "salt");
  assert.deepEqual([c.said, c.lent], [[{ to: "a", type: "lent", id: a.said[2]!.id, url: null }], []]);
  assert.deepEqual(a.pages.counts, { numFetched: 4, fetchedBytes: 6, numFailed: 2 });
  a.pages.hear({ type: "lent", id: "1", url: "http://127.0.0.1:1/" }, "b"); // nobody waits for it any more
  assert.equal(numTimers(), before, "no timer is left");
  assert.deepEqual(b.pages.counts, { numFetched: 0, fetchedBytes: 0, numFailed: 0 });
  for (const port of [here, there]) port.close();
});

test("what is offered is taken by one whose engine is alike; one that gives away waits until it was fetched, or for so long", async () => {
  const [here, there] = [await open(), await open()];
  const peers = new Map<string, Peer>();
  const a = new Peer("a", here, { peers });
  const b = new Peer("b", there, { peers });
  const c = new Peer("c", there, { peers, identity: "other" });
  const before = numTimers();
  await a.pages.giveAway("b", 600_000);
  assert.equal(numTimers(), before, "no timer is left");
  assert.deepEqual(a.lent, [[[], "", 0, 256 * 2 ** 20]]);
  await until(() => b.taken.length > 0, "it came");
  assert.deepEqual(
    [b.taken, a.said.map(({ url: _, ...rest }) => rest)],
    [[[[], "", [1, 2, 3]]], [{ to: "b", type: "offer", identity: "same" }]],
  );
  await a.pages.giveAway("c", 1);
  assert.deepEqual([c.taken, c.said, c.pages.counts.numFailed, a.lent.length], [[], [], 0, 1]);
  b.pages.hear({ type: "offer", identity: "same", url: here.offer(() => Promise.reject(new Error("no"))) }, "a");
  await until(() => b.pages.counts.numFailed > 0, "that it failed is counted");
  assert.deepEqual(b.pages.counts, { numFetched: 2, fetchedBytes: 3, numFailed: 1 });
  for (const port of [here, there]) port.close();
});

test("pages come from where their holder registered, asked of it alone, with a member's code", async () => {
  const secret = "shared";
  const openWith = async (given: string | null) =>
    (await PagePort.open({ host: "127.0.0.1", advertise: null, tls: null, secret: given }))!;
  const [ours, theirs, strange] = [await openWith(secret), await openWith(secret), await openWith(null)];
  const bytes = Uint8Array.of(1, 2, 3);
  assert.deepEqual(
    await ours.fetch(
      theirs.offer(async () => bytes),
      9,
    ),
    bytes,
  );
  await assert.rejects(
    ours.fetch(
      strange.offer(async () => bytes),
      9,
    ),
    /code of a member/,
  );

  const peers = new Map<string, Peer>();
  const a = new Peer("a", ours, { peers });
  new Peer("b", theirs, { peers });
  const prompt = Int32Array.of(7, 8, 9, 10, 11);
  // Elsewhere than where "b" lends its pages, and from one that is no member.
  for (const [from, url] of [
    ["b", strange.offer(async () => bytes)],
    ["b", `${theirs.url}.evil.example/ticket`],
    ["nobody", theirs.offer(async () => bytes)],
  ] as const) {
    const before = a.pages.counts.numFailed;
    a.pages.hear({ type: "offer", identity: "same", url }, from);
    await until(() => a.pages.counts.numFailed > before, "it is refused");
  }
  // An answer that another than the one who was asked gives, with the right number.
  peers.get("b")!.pages.hear = () => {
    a.pages.hear({ type: "lent", id: a.said.at(-1)!.id as string, url: strange.offer(async () => bytes) }, "c");
    a.pages.hear({ type: "lent", id: a.said.at(-1)!.id as string, url: null }, "b");
  };
  await a.pages.fetch("b", prompt, "salt");
  assert.deepEqual([a.taken, a.pages.counts.numFetched], [[], 0]);
  for (const port of [ours, theirs, strange]) port.close();
});
