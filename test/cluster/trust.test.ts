// Who may join: off loopback only with TLS and credentials; and the permissions that docs/cluster.md gives are enough, and no more than that.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:https";
import { tmpdir } from "node:os";

import { join } from "node:path";
import { test } from "node:test";
import { checkTrust } from "../../src/cluster/connection.js";
import { joinAsReplica, joinAsRouter } from "../../src/cluster/join.js";
import { PagePort, type PagePortOptions } from "../../src/cluster/page-port.js";
import { createRoutedEngine } from "../../src/cluster/routed-engine.js";
import { readStatus } from "../../src/cluster/status.js";
import { clusterConfig } from "../../src/config/cluster-config.js";
import { startEngine } from "../../src/engine/client/engine.js";
import { TestNats, whyNoNats } from "../support/nats.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

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

test("members with certificates and the documented permissions make a cluster; a stranger is refused", {
  skip: whyNoNats() || (hasOpenssl ? false : "no openssl here"),
}, async () => {
  const dir = mkdtempSync(join(tmpdir(), "pagoda-tls-"));
  try {
    certificates(dir);
    const text = /```\n(jetstream \{\}\n[\s\S]*?)```/.exec(readFileSync("docs/cluster.md", "utf8"))![1]!;
    const config = text
      .replaceAll("CLUSTER", "tls")
      .replace(/"(\w+\.(pem|key))"/g, `"${dir}/$1"`)
      .replace("jetstream {}", "");
    writeFileSync(join(dir, "nats.conf"), config);
    await using nats = await TestNats.start(["-c", join(dir, "nats.conf")]);
    const as = (name: string) =>
      clusterConfig({
        nats: [nats.url.replace("nats://127.0.0.1", "tls://localhost")],
        cluster: "tls",
        natsTlsCa: join(dir, "ca.pem"),
        natsTlsCert: join(dir, `${name}.pem`),
        natsTlsKey: join(dir, `${name}.key`),
      });
    const model = writeTinyCheckpoint();
    await using engine = await startEngine({ model, device: "cpu", threads: 1, worker: false, numPages: 64 });
    const limits = { slots: 4, maxQueued: 4, address: "none", host: "127.0.0.1" };
    await using replica = await joinAsReplica(engine, as("replica"), limits);
    await using router = await joinAsRouter(as("router"));
    await router.register({ address: "none", models: [] });
    await using routed = await createRoutedEngine(router.router, { model, cluster: "tls", patienceMs: 10_000 });
    const prompt = "a long enough prompt to fill a page or two of the cache with its tokens";
    const { samples } = await routed.generate(prompt, { maxTokens: 4 }).result();
    assert.equal(samples[0]!.tokenIds.length, 4);
    const { trace } = await routed.generate(`${prompt} again`, { maxTokens: 4 }).result();
    assert.ok(trace.cachedTokens > 0);
    const status = await readStatus(as("router"));
    assert.deepEqual([status.replicas[0]?.id, status.routers.length], [replica.id, 1]);
    await checkPagePort(dir);
    await assert.rejects(joinAsRouter(as("stranger")), { code: "nats_unreachable" });
    const open = clusterConfig({ nats: [nats.url], cluster: "tls" });
    await assert.rejects(joinAsRouter(open), { code: "nats_unreachable" });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
