import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { clusterConfig } from "../../config/cluster-config.js";
import { PagodaError } from "../../core/errors.js";
import { certificatesOf, checkTrust, connectNats } from "./connection.js";
import { retry } from "./retry.js";

/** What a way to NATS is refused for: the option, and its value as it is shown; null: it is not. */
function refusal(options: Record<string, unknown>): string | null {
  try {
    checkTrust(clusterConfig(options));
    return null;
  } catch (error) {
    assert.ok(error instanceof PagodaError && error.code === "invalid_option");
    return `${error.details.param} ${error.details.value}`;
  }
}

test("who may go which way: loopback as it likes, others with TLS and a login of one kind", () => {
  const far = "tls://10.0.0.1:4222";
  const near = "nats://127.0.0.1:4222";
  const certificate = { natsTlsCert: "c", natsTlsKey: "k" };
  const user = { natsUser: "u", natsPassword: "p" };
  const table: [Record<string, unknown>, string | null][] = [
    [{ nats: [near, "nats://localhost", "tls://[::1]:1", "nats://127.9.9.9:65535"] }, null],
    [{ nats: [near], ...user }, null],
    [{ nats: [near], ...certificate }, null],
    [{ nats: [near, "nats://10.0.0.1"] }, "nats nats://10.0.0.1"],
    [{ nats: ["nats://10.0.0.1"], natsToken: "t" }, "nats nats://10.0.0.1"],
    [{ nats: ["nats://10.0.0.1"], natsToken: "t", natsTlsCa: "ca" }, null],
    [{ nats: ["nats://10.0.0.1"], ...certificate }, null],
    [{ nats: ["nats://10.0.0.1", far], natsToken: "t" }, null],
    [{ nats: [far] }, "natsCreds missing"],
    [{ nats: [far], natsTlsCa: "ca" }, "natsCreds missing"],
    ...[{ natsCreds: "f" }, { natsNkey: "f" }, user, { natsToken: "t" }, certificate].map(
      (login): [Record<string, unknown>, null] => [{ nats: [far], ...login }, null],
    ),
    [{ nats: [near], natsTlsCert: "c" }, "natsTlsKey missing"],
    [{ nats: [near], natsTlsKey: "k" }, "natsTlsCert missing"],
    [{ nats: [near], natsUser: "u" }, "natsPassword missing"],
    [{ nats: [near], natsPassword: "p" }, "natsUser missing"],
    [{ nats: [near], natsCreds: "f", natsNkey: "f" }, "natsNkey given"],
    [{ nats: [near], ...user, natsToken: "t" }, "natsToken given"],
    [{ nats: ["nats://u:p@127.0.0.1"] }, "nats a URL with a password"],
    ...["127.0.0.1:4222", "nats://", "nats://h:", "nats://h:123456", "http://h", "nats://h/x", "nats://a:b:c"].map(
      (url): [Record<string, unknown>, string] => [{ nats: [url] }, `nats ${JSON.stringify(url)}`],
    ),
  ];
  for (const [options, expected] of table) assert.equal(refusal(options), expected, JSON.stringify(options));
});

test("certificates are read from their files; one that cannot be read is named", () => {
  const dir = mkdtempSync(join(tmpdir(), "pagoda-certificates-"));
  try {
    const [ca, cert, key] = ["ca", "cert", "key"].map((name) => join(dir, name)) as [string, string, string];
    for (const path of [ca, cert, key]) writeFileSync(path, `of ${path}`);
    const read = (options: object) => certificatesOf(clusterConfig({ nats: ["nats://localhost"], ...options }));
    const both = { cert: `of ${cert}`, key: `of ${key}` };
    assert.deepEqual(read({}), { ca: null, certificate: null });
    assert.deepEqual(read({ natsTlsCa: ca }), { ca: `of ${ca}`, certificate: null });
    assert.deepEqual(read({ natsTlsCert: cert, natsTlsKey: key }), { ca: null, certificate: both });
    assert.deepEqual(read({ natsTlsCert: cert }).certificate, null);
    assert.deepEqual(read({ natsTlsKey: key }).certificate, null);
    assert.throws(
      () => read({ natsTlsCa: join(dir, "none") }),
      /natsTlsCa is .*none; it must be a file that can be read/,
    );
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

test("a login file that is none is refused before anything is tried", async () => {
  const dir = mkdtempSync(join(tmpdir(), "pagoda-login-"));
  const seed = `SU${"A".repeat(56)}`;
  try {
    for (const text of [
      "",
      seed.slice(1),
      `${seed}A`,
      ` ${seed}`,
      seed.toLowerCase(),
      `SU${"A".repeat(55)}8`,
      `SU${"A".repeat(55)}1`,
    ]) {
      writeFileSync(join(dir, "nk"), text);
      const config = clusterConfig({ nats: ["nats://127.0.0.1:1"], natsNkey: join(dir, "nk") });
      await assert.rejects(connectNats(config, "me"), { code: "invalid_option" }, JSON.stringify(text));
    }
    const config = clusterConfig({ nats: ["nats://127.0.0.1:1"], natsCreds: join(dir, "none") });
    await assert.rejects(connectNats(config, "me"), /natsCreds is .*none; it must be a file that can be read/);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

test("what fails is tried again until it succeeds, its time is over, or it fails for good", async (t) => {
  const failing = (numFailures: number) => {
    let numTried = 0;
    return async () => {
      if (numTried++ < numFailures) throw new Error(`failure ${numTried}`);
      return numTried;
    };
  };
  assert.equal(await retry(failing(0), 0), 1);
  assert.equal(await retry(failing(1), 600_000), 2);
  await assert.rejects(retry(failing(9), -1), /failure 1/);
  let nowMs = 0;
  t.mock.method(performance, "now", () => nowMs++);
  await assert.rejects(retry(failing(9), 1), /failure 2/, "not before its time is over");
  await assert.rejects(
    retry(failing(9), 600_000, ({ message }) => message === "failure 1"),
    /failure 1/,
  );
});
