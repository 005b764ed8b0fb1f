// Who may join: off loopback only with TLS and credentials; and the permissions that docs/guide/cluster.md gives are enough, and no more than that.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { nkeys } from "@nats-io/transport-node";
import { checkTrust } from "../../src/cluster/bus/connection.js";
import { checkRole, joinAsReplica, joinAsRouter } from "../../src/cluster/join.js";
import { readStatus } from "../../src/cluster/membership/status.js";
import { PagePort, type PagePortOptions } from "../../src/cluster/replica/page-port.js";
import { createRoutedEngine } from "../../src/cluster/router/routed-engine.js";
import { type ClusterConfig, clusterConfig } from "../../src/config/cluster-config.js";
import { startEngine } from "../../src/engine/client/engine.js";
import {
  authorization,
  documentedNats,
  type Kind,
  permissionsOf,
  userConfig,
  userLogin,
} from "../support/documented-nats.js";
import { TestNats, whyNoNats } from "../support/nats.js";
import { NatsOperator } from "../support/nats-jwt.js";
import { PATIENCE_MS } from "../support/small-cluster.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const model = writeTinyCheckpoint();
const hasOpenssl = spawnSync("openssl", ["version"]).status === 0;

test("off loopback a member needs TLS and credentials", () => {
  const check = (options: Record<string, unknown>) => () => checkTrust(clusterConfig(options));
  check({ nats: ["nats://127.0.0.1:4222", "nats://localhost", "nats://[::1]:4222"] })();
  assert.throws(check({ nats: ["nats://10.0.0.1:4222"] }), /tls:\/\//);
  assert.throws(check({ nats: ["nats://127.0.0.1.example.org:4222"] }), /tls:\/\//);
  assert.throws(check({ nats: ["tls://10.0.0.1:4222"] }), /natsCreds is missing/);
  assert.throws(check({ nats: ["nats://user:secret@10.0.0.1"] }), (error: Error) => !error.message.includes("secret"));
  assert.throws(check({ nats: ["10.0.0.1:4222"] }), /nats:\/\/HOST:PORT/);
  assert.throws(check({ nats: ["tls://10.0.0.1"], natsTlsCert: "c.pem" }), /natsTlsKey is missing/);
  check({ nats: ["tls://10.0.0.1:4222"], natsCreds: "a.creds" })();
  check({ nats: ["tls://nats.example.org"], natsTlsCert: "c.pem", natsTlsKey: "c.key" })();
  check({ nats: ["tls://nats.example.org"], natsNkey: "a.nk" })();
  check({ nats: ["tls://nats.example.org"], natsToken: "secret" })();
  check({ nats: ["tls://nats.example.org"], natsUser: "a", natsPassword: "secret" })();
  assert.throws(check({ nats: ["nats://10.0.0.1:4222"], natsToken: "secret" }), /tls:\/\//);
  assert.throws(check({ nats: ["nats://127.0.0.1"], natsUser: "a" }), /natsPassword is missing/);
  assert.throws(check({ nats: ["nats://127.0.0.1"], natsCreds: "a.creds", natsToken: "secret" }), (error: Error) => {
    return /natsToken is given/.test(error.message) && !error.message.includes("secret");
  });
});

test("a role needs pages that can move", () => {
  const check = (options: Record<string, unknown>, host: string) => () =>
    checkRole(clusterConfig(options), { host, role: "prefill" });
  check({}, "127.0.0.1")();
  check({ natsTlsCert: "c.pem", natsTlsKey: "c.key" }, "0.0.0.0")();
  assert.throws(check({}, "0.0.0.0"), /role is prefill; it must be both/);
  assert.throws(check({ pageTransfers: false }, "127.0.0.1"), /role is prefill; it must be both/);
});

function certificates(dir: string): void {
  const openssl = (...args: string[]): void => {
    execFileSync("openssl", args, { cwd: dir, stdio: "ignore" });
  };
  const ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  openssl("req", "-x509", ...ec, "-days", "1", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem");
  for (const name of ["server", "replica", "router", "stranger"]) {
    openssl("req", ...ec, "-subj", `/CN=${name}`, "-keyout", `${name}.key`, "-out", `${name}.csr`);
    writeFileSync(join(dir, "ext"), "subjectAltName=DNS:localhost\n");
    const sign = ["x509", "-req", "-in", `${name}.csr`, "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
    openssl(...sign, "-days", "1", "-extfile", "ext", "-out", `${name}.pem`);
  }
}

/** Pages go to members only, once, and not more than agreed. */
async function checkPagePort(dir: string): Promise<void> {
  const tlsOf = (name: string) => ({
    ca: readFileSync(join(dir, "ca.pem"), "utf8"),
    cert: readFileSync(join(dir, `${name}.pem`), "utf8"),
    key: readFileSync(join(dir, `${name}.key`), "utf8"),
  });
  const open = (tls: PagePortOptions["tls"], host = "127.0.0.1") => PagePort.open({ host, advertise: null, tls });
  assert.equal(await open(null, "0.0.0.0"), null, "off loopback there are no transfers without certificates");
  const [holder, member, plain] = [await open(tlsOf("replica")), await open(tlsOf("replica")), await open(null)];
  const pages = new Uint8Array(100_000).fill(7);
  const offer = (): string => holder!.offer(async () => pages);
  const url = offer();
  assert.deepEqual(await member!.fetch(url, 1e6), pages);
  await assert.rejects(member!.fetch(url, 1e6), /404/, "a ticket is good once");
  await assert.rejects(member!.fetch(offer(), 1000), /100000 bytes/);
  await assert.rejects(member!.fetch(`${new URL(offer()).origin}/guessed`, 1e6), /404/);
  await assert.rejects(plain!.fetch(offer().replace("https", "http"), 1e6));
  const stranger = { method: "GET", rejectUnauthorized: false };
  await assert.rejects(new Promise((resolve, reject) => get(offer(), stranger, resolve).on("error", reject)));
  for (const port of [holder, member, plain]) port!.close();
}

/** A replica and a router that log in so make a cluster that works. */
async function checkCluster(as: (kind: Kind) => ClusterConfig): Promise<void> {
  const limits = { slots: 4, maxQueued: 4, address: "none", host: "127.0.0.1" };
  await using engine = await startEngine({ model, device: "cpu", threads: 1, worker: false, numPages: 64 });
  await using replica = await joinAsReplica(engine, as("replica"), limits);
  await using router = await joinAsRouter(as("router"));
  await router.register({ address: "none", models: [] });
  await using routed = await createRoutedEngine(router.router, { model, cluster: "trust", patienceMs: PATIENCE_MS });
  const prompt = "a long enough prompt to fill a page or two of the cache with its tokens";
  const { samples } = await routed.generate(prompt, { maxTokens: 4, ignoreEos: true }).result();
  assert.equal(samples[0]!.tokenIds.length, 4);
  const { trace } = await routed.generate(`${prompt} again`, { maxTokens: 4, ignoreEos: true }).result();
  assert.ok(trace.cachedTokens > 0);
  const status = await readStatus(as("router"));
  assert.deepEqual([status.replicas[0]?.id, status.routers.length], [replica.id, 1]);
}

interface Login {
  readonly way: string;
  /** Configuration of nats-server. */
  readonly server: string;
  of(kind: Kind): Record<string, string>;
  /** Options of one that must not be let in. */
  readonly stranger: Record<string, string>;
}

function logins(dir: string): Login[] {
  const file = (name: string, content: string): string => {
    writeFileSync(join(dir, name), content);
    return join(dir, name);
  };
  const users = { replica: nkeys.createUser(), router: nkeys.createUser(), stranger: nkeys.createUser() };
  const seedOf = (name: keyof typeof users): string =>
    file(`${name}.nk`, Buffer.from(users[name].getSeed()).toString());
  const operator = new NatsOperator();
  const credsOf = (of: NatsOperator, kind: Kind): string => file(`${kind}.creds`, of.creds(permissionsOf(kind)));
  return [
    {
      way: "user and password",
      server: userConfig,
      of: userLogin,
      stranger: { natsUser: "router", natsPassword: "of replica" },
    },
    {
      way: "token",
      server: 'authorization { token: "one for all" }',
      of: () => ({ natsToken: "one for all" }),
      stranger: { natsToken: "another" },
    },
    {
      way: "nkey",
      server: authorization.replace(/user: "CN=(\w+)"/g, (_, kind: Kind) => `nkey: ${users[kind].getPublicKey()}`),
      of: (kind) => ({ natsNkey: seedOf(kind) }),
      stranger: { natsNkey: seedOf("stranger") },
    },
    {
      way: ".creds",
      server: operator.config(),
      of: (kind) => ({ natsCreds: credsOf(operator, kind) }),
      stranger: { natsCreds: file("stranger.creds", new NatsOperator().creds(permissionsOf("router"))) },
    },
  ];
}

test("members log in by user and password, token, nkey or .creds file with the documented permissions; strangers are refused", {
  skip: whyNoNats(),
}, async (t) => {
  const dir = mkdtempSync(join(tmpdir(), "pagoda-login-"));
  try {
    for (const { way, server, of, stranger } of logins(dir))
      await t.test(way, async () => {
        writeFileSync(join(dir, "nats.conf"), server);
        await using nats = await TestNats.start(["-c", join(dir, "nats.conf")]);
        const as = (login: Record<string, string>) => clusterConfig({ nats: [nats.url], cluster: "trust", ...login });
        await checkCluster((kind) => as(of(kind)));
        for (const login of [stranger, {}])
          await assert.rejects(joinAsRouter(as(login)), { code: "nats_unreachable" }, JSON.stringify(login));
      });
    const empty = join(dir, "empty.nk");
    writeFileSync(empty, "nothing\n");
    await assert.rejects(
      joinAsRouter(clusterConfig({ nats: ["nats://127.0.0.1:1"], natsNkey: empty })),
      /seed of a user/,
    );
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

test("members with certificates and the documented permissions make a cluster; a stranger is refused", {
  skip: whyNoNats() || (hasOpenssl ? false : "no openssl here"),
}, async () => {
  const dir = mkdtempSync(join(tmpdir(), "pagoda-tls-"));
  try {
    certificates(dir);
    writeFileSync(join(dir, "nats.conf"), documentedNats.replace(/"(\w+\.(pem|key))"/g, `"${dir}/$1"`));
    await using nats = await TestNats.start(["-c", join(dir, "nats.conf")]);
    const as = (name: string) =>
      clusterConfig({
        nats: [nats.url.replace("nats://127.0.0.1", "tls://localhost")],
        cluster: "trust",
        natsTlsCa: join(dir, "ca.pem"),
        natsTlsCert: join(dir, `${name}.pem`),
        natsTlsKey: join(dir, `${name}.key`),
      });
    await checkCluster(as);
    await checkPagePort(dir);
    await assert.rejects(joinAsRouter(as("stranger")), { code: "nats_unreachable" });
    const open = clusterConfig({ nats: [nats.url], cluster: "trust" });
    await assert.rejects(joinAsRouter(open), { code: "nats_unreachable" });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
