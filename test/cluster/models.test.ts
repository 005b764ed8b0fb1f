// Two models in one cluster behind one router, as processes and as `pagoda cluster status` shows them; and members that speak another
// protocol than this one.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { basename } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { statusText } from "../../src/cli/cluster/cluster.js";
import { PROTOCOL } from "../../src/cluster/bus/wire.js";
import { openMailbox } from "../../src/cluster/join.js";
import { Lease } from "../../src/cluster/membership/lease.js";
import type { ReplicaEntry } from "../../src/cluster/membership/registration.js";
import { type ClusterStatus, readStatus } from "../../src/cluster/membership/status.js";
import { TestNats, whyNoNats } from "../support/nats.js";
import { startProcess } from "../support/served-process.js";
import { LONG_LEASE, SmallCluster, story, TINY_MODEL, tinyEngine, whole } from "../support/small-cluster.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";
import { until } from "../support/until.js";

const skip = whyNoNats();
let nats: TestNats;
before(async () => {
  if (skip === false) nats = await TestNats.start();
});
after(async () => {
  if (skip === false) await nats[Symbol.asyncDispose]();
});

test("requests go to the replicas of the model they name, and cluster status counts each model's", {
  skip,
}, async () => {
  const other = writeTinyCheckpoint({ context: 16384, seed: 9 });
  await using cluster = await SmallCluster.start(nats.url, {
    replicas: [{ role: "decode" }, { role: "prefill" }, { engine: { model: other } }],
  });
  const { config, replicas } = cluster;
  const flags = ["--nats", nats.url, "--cluster", config.cluster];
  const lease = ["--lease-seconds", String(config.leaseSeconds), "--log-level", "silent"];
  await using router = await startProcess([...flags, ...lease, "--model", TINY_MODEL, "--model", other], "ignore", [
    "route",
  ]);
  const ask = async (model: string): Promise<string> => {
    const reply = await fetch(`${router.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        model: basename(model),
        prompt: story(1),
        max_tokens: 12,
        temperature: 0,
        ignore_eos: true,
      }),
    });
    const body = (await reply.json()) as { choices?: [{ text: string }] };
    assert.equal(reply.status, 200, JSON.stringify(body));
    return body.choices![0].text;
  };
  const answers = [await ask(TINY_MODEL), await ask(other), await ask(other)];
  for (const [i, model] of [TINY_MODEL, other, other].entries()) {
    await using lone = await tinyEngine({ model });
    const options = { maxTokens: 12, temperature: 0, ignoreEos: true };
    assert.equal(answers[i], (await lone.generate(story(1), options).result()).samples[0]!.text);
  }
  await until(async () => {
    const { models } = await readStatus(config);
    return [TINY_MODEL, other].map((model) => models[basename(model)]?.requestsFinished).join() === "1,2";
  }, "the replicas have said what they did");
  const status = async (...more: string[]): Promise<string> => {
    const { stdout } = await promisify(execFile)(process.execPath, [
      "bin/pagoda.js",
      "cluster",
      "status",
      ...flags,
      ...more,
    ]);
    return stdout;
  };
  const { models, replicas: rows, routers } = JSON.parse(await status("--json")) as ClusterStatus;
  assert.deepEqual(
    Object.values(models)
      .map(({ ready, versions }) => [ready, versions])
      .sort(),
    [
      [1, 1],
      [2, 1],
    ],
  );
  assert.deepEqual(rows.map(({ role }) => role).sort(), ["both", "decode", "prefill"]);
  const { load } = rows.find(({ id }) => id === replicas[2]!.member.id)!;
  assert.equal(load.requestsFinished, 2);
  assert.ok(load.cachedTokens > 0 && load.promptTokens > load.cachedTokens);
  assert.deepEqual([load.callsFailed, load.callsRefused, load.fetchesFailed], [0, 0, 0]);
  assert.deepEqual(
    routers.find(({ address }) => address === router.url)?.models,
    [TINY_MODEL, other].map((model) => basename(model)),
  );
  const text = await status();
  assert.match(text, new RegExp(`${basename(TINY_MODEL)} +2 +0 +0 +1 `));
  assert.match(text, new RegExp(`${replicas[1]!.member.id} .* prefill +ready `));
});

test("a member of another protocol is named and left alone, and what it says is refused", { skip }, async () => {
  await using cluster = await SmallCluster.start(nats.url);
  const { config, engine, router, replicas } = cluster;
  const { id } = replicas[0]!.member;
  const strange = await openMailbox(config);
  const heard: { readonly type: string; readonly v: number }[] = [];
  strange.nats.subscribe(strange.subjects.inbox(strange.member), {
    callback: (_, { data }) => {
      heard.push(JSON.parse(Buffer.from(data).toString()));
    },
  });
  strange.nats.publish(strange.subjects.inbox(id), JSON.stringify({ type: "add", from: strange.member, v: 99 }));
  await until(() => heard.length === 1, "it is refused");
  assert.deepEqual([heard[0]!.type, heard[0]!.v], ["unsupported", PROTOCOL]);
  assert.equal(replicas[0]!.member.replica.numCalls, 0);
  const garbled = [
    {},
    { type: "add", id: "1" },
    { type: "outputs", outputs: [{ id: 1 }] },
    { type: "gone" },
    { type: "toString" },
  ];
  for (const to of [id, router.router.mailbox.member]) for (const message of garbled) strange.send(to, message);

  const reasons: (string | null)[] = [];
  router.router.onMember = ({ reason }) => reasons.push(reason);
  const lease = new Lease(strange, LONG_LEASE * 1000);
  const entry: ReplicaEntry = { ...router.router.replicas()[0]!, id: strange.member, protocol: 99, version: "9.0.0" };
  await lease.hold(() => entry);
  await until(() => reasons.length > 0, "the router hears of it");
  assert.match(reasons[0]!, /version 9\.0\.0 and speaks protocol 99, this router 1/);
  assert.deepEqual(
    router.router.replicas().map((one) => one.id),
    [id],
  );
  assert.match(statusText(await readStatus(config), Date.now()), /ready \(protocol 99\)/);
  await using lone = await tinyEngine();
  assert.deepEqual(await whole(engine, 1), await whole(lone, 1));

  // A replica that says so although its entry does not is asked no further, and the client hears why.
  replicas[0]!.engine.relay = () => {
    strange.nats.publish(
      strange.subjects.inbox(router.router.mailbox.member),
      JSON.stringify({ type: "unsupported", from: id, v: 99 }),
    );
    return () => undefined;
  };
  await assert.rejects(engine.generate(story(2), { maxTokens: 2 }).result(), /speaks another protocol/);
  await lease.end();
  await strange.close();
});

test("with a secret a stranger on the bus can be neither a member nor heard", { skip }, async () => {
  await using cluster = await SmallCluster.start(nats.url, { secret: "shared by members" });
  const { config, engine, router, replicas } = cluster;
  const { id } = replicas[0]!.member;
  const stranger = await openMailbox({ ...config, clusterSecret: null });
  const guesser = await openMailbox({ ...config, clusterSecret: "a guess" });
  const real = router.router.replicas()[0]!;
  const leases = [stranger, guesser].map((mailbox) => ({ mailbox, lease: new Lease(mailbox, LONG_LEASE * 1000) }));
  for (const { mailbox, lease } of leases) {
    await lease.hold(() => ({ ...real, id: mailbox.member }));
    mailbox.send(id, { type: "offer", identity: real.facts.identity, url: `${real.pageAddress}/x` });
    mailbox.send(id, { type: "abort", id: "1", index: -1 });
    mailbox.send(router.router.mailbox.member, { type: "gone", ids: ["1"] });
  }
  await using lone = await tinyEngine();
  assert.deepEqual(await whole(engine, 1), await whole(lone, 1));
  assert.deepEqual(
    router.router.replicas().map((one) => one.id),
    [id],
  );
  assert.equal(replicas[0]!.member.replica.peers?.counts.numFailed ?? 0, 0, "offers of strangers are not even tried");
  for (const { mailbox, lease } of leases) {
    await lease.end();
    await mailbox.close();
  }
});
