// A client on the bus that has the login of one role and says what only another may, or says again what it recorded: on a real nats-server with the
// permissions of docs/guide/cluster.md.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { NatsConnection } from "@nats-io/transport-node";
import { connectNats } from "../../src/cluster/bus/connection.js";
import type { Mailbox } from "../../src/cluster/bus/mailbox.js";
import { joinAsReplica, joinAsRouter } from "../../src/cluster/join.js";
import { readStatus } from "../../src/cluster/membership/status.js";
import { createRoutedEngine } from "../../src/cluster/router/routed-engine.js";
import { clusterConfig } from "../../src/config/cluster-config.js";
import { type Kind, userConfig, userLogin } from "../support/documented-nats.js";
import { TestNats, whyNoNats } from "../support/nats.js";
import { LONG_LEASE, PATIENCE_MS, TINY_MODEL, tinyEngine, whole } from "../support/small-cluster.js";
import { until } from "../support/until.js";

const skip = whyNoNats();
const dir = mkdtempSync(join(tmpdir(), "pagoda-forged-"));
let nats: TestNats;
before(async () => {
  writeFileSync(join(dir, "nats.conf"), userConfig);
  if (skip === false) nats = await TestNats.start(["-c", join(dir, "nats.conf")]);
});
after(async () => {
  if (skip === false) await nats[Symbol.asyncDispose]();
  rmSync(dir, { recursive: true });
});

const as = (kind: Kind, clusterSecret: string | null = null) =>
  clusterConfig({ nats: [nats.url], cluster: "trust", leaseSeconds: LONG_LEASE, clusterSecret, ...userLogin(kind) });
const LIMITS = { slots: 4, maxQueued: 4, address: "none", host: "127.0.0.1" };

/** A connection with a role's login, and what the server refused it. */
async function forger(kind: Kind): Promise<{ nats: NatsConnection; refused: string[] }> {
  const connection = await connectNats(as(kind), "forger");
  const refused: string[] = [];
  void (async () => {
    for await (const status of connection.status())
      if (status.type === "error") refused.push(/"([^"]+)"/.exec(status.error.message)?.[1] ?? status.error.message);
  })();
  return { nats: connection, refused };
}

const members = async (): Promise<string[]> => {
  const { replicas, routers } = await readStatus(as("router"));
  return [...replicas, ...routers].map(({ id }) => id);
};

test("with the login of one role a client can do nothing of another role's, nor end the cluster's bucket", {
  skip,
}, async () => {
  await using engine = await tinyEngine();
  await using replica = await joinAsReplica(engine, as("replica"), LIMITS);
  await using router = await joinAsRouter(as("router"));
  await router.register({ address: "none", models: [] });
  await using routed = await createRoutedEngine(router.router, {
    model: TINY_MODEL,
    cluster: "trust",
    patienceMs: PATIENCE_MS,
  });
  const before = await members();
  const real = router.router.replicas()[0]!;
  const inbox = router.router.mailbox.member;
  const bucket = "$KV.pagoda_trust";
  /** Whoever may make a consumer of a stream may read it. */
  const others = [
    ["$JS.API.CONSUMER.CREATE.KV_pagoda_other.mine.$KV.pagoda_other.>", "{}"],
    ["$JS.API.CONSUMER.CREATE.ORDERS", "{}"],
    ["$JS.API.CONSUMER.DELETE.ORDERS.theirs", ""],
    ["$JS.API.CONSUMER.LIST.ORDERS", ""],
    ["$JS.ACK.ORDERS.theirs.1.1.1.1.1", ""],
    ["$JS.FC.ORDERS.theirs.x", ""],
    ["$JS.API.STREAM.LIST", ""],
    ["pagoda.other.to.somebody", "{}"],
  ] as const;
  const forged: Readonly<Record<Kind, readonly (readonly [subject: string, said: string])[]>> = {
    router: [
      [`${bucket}.replica.ghost`, JSON.stringify({ ...real, id: "ghost" })],
      [`${bucket}.replica.${replica.id}`, ""],
      [`pagoda.trust.prefixes.${replica.id}`, JSON.stringify({ type: "prefixes", from: replica.id })],
      ["$JS.API.STREAM.DELETE.KV_pagoda_trust", ""],
      ["$JS.API.STREAM.PURGE.KV_pagoda_trust", ""],
      ["$JS.API.STREAM.MSG.DELETE.KV_pagoda_trust", '{"seq":1}'],
      ...others,
    ],
    replica: [
      [`${bucket}.router.ghost`, "{}"],
      [`${bucket}.router.${inbox}`, ""],
      ["$JS.API.STREAM.DELETE.KV_pagoda_trust", ""],
      ["$JS.API.STREAM.UPDATE.KV_pagoda_trust", "{}"],
      ...others,
    ],
  };
  for (const kind of ["router", "replica"] as const) {
    const { nats: connection, refused } = await forger(kind);
    for (const [subject, said] of forged[kind]) connection.publish(subject, said);
    const heard = ["$KV.pagoda_other.>", "pagoda.other.>", ">"];
    for (const subject of heard) connection.subscribe(subject, { callback: () => undefined });
    const expected = [...forged[kind].map(([subject]) => subject), ...heard];
    await until(() => refused.length >= expected.length, "the server refuses each");
    assert.deepEqual(refused.toSorted(), expected.toSorted(), kind);
    await connection.close();
  }
  assert.deepEqual(await members(), before);
  assert.deepEqual(
    router.router.replicas().map(({ id }) => id),
    [replica.id],
  );
  assert.deepEqual(await whole(routed, 1), await whole(engine, 1));
});

test("where there is a secret, a replica's login alone makes no replica, ends none, and brings none back", {
  skip,
}, async () => {
  const secret = "shared by members";
  const { nats: connection } = await forger("replica");
  const recorded: Uint8Array[] = [];
  connection.subscribe("$KV.pagoda_trust.replica.*", { callback: (_, { data }) => void recorded.push(data) });
  await connection.flush();
  await using engine = await tinyEngine();
  const replica = await joinAsReplica(engine, as("replica", secret), LIMITS);
  await using router = await joinAsRouter(as("router", secret));
  const known = () => router.router.replicas().map(({ id }) => id);
  await until(() => recorded.length > 0 && known().length === 1, "it is heard");
  const key = `$KV.pagoda_trust.replica.${replica.id}`;
  const entry = { ...router.router.replicas()[0]!, state: "draining" };
  const put = async (subject: string, data: string | Uint8Array): Promise<void> => {
    connection.publish(subject, data);
    await connection.flush();
    await (router.router.mailbox as Mailbox).nats.flush(); // it has heard of the put
  };
  await put(key, "");
  await put(key, JSON.stringify(entry));
  await put("$KV.pagoda_trust.replica.ghost", JSON.stringify({ ...entry, id: "ghost" }));
  assert.deepEqual([known(), router.router.replicas()[0]!.state], [[replica.id], "ready"]);
  await replica.close();
  await until(() => known().length === 0, "it left");
  for (const data of recorded.slice()) await put(key, data);
  assert.deepEqual(known(), [], "its entry was put back");
  await connection.close();
});
