import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { startServer } from "../../../test/support/test-server.js";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { AGENTS } from "./agents.js";

const TARGET = { base: "http://127.0.0.1:1", model: "m", key: undefined, context: null };

test("each agent is told of the server, the model and the key", () => {
  for (const [name, agent] of Object.entries(AGENTS)) {
    const bare = JSON.stringify(agent.start(TARGET));
    assert.match(bare, /http:\/\/127\.0\.0\.1:1/, name);
    const { args, env } = agent.start({ ...TARGET, key: "secret", context: 4096 });
    const told = JSON.stringify([args, env]);
    for (const part of ["secret", "4096"]) {
      assert.ok(told.includes(part), `${name}: ${part}`);
      assert.ok(!bare.includes(part), `${name}: ${part} without one`);
    }
    assert.ok(!args.join(" ").includes("secret"), `${name}: arguments are seen by everybody on the machine`);
  }
  const { env } = AGENTS.claude!.start(TARGET);
  assert.ok("ANTHROPIC_API_KEY" in env && env.ANTHROPIC_API_KEY === undefined, "the user's own key stays at home");
});

test("an agent runs with the server's first model, its own arguments, and its exit code", async () => {
  await using host = await startServer({ model: writeTinyCheckpoint() });
  const bin = mkdtempSync(join(tmpdir(), "pagoda-launch-"));
  const program = join(bin, "claude");
  writeFileSync(
    program,
    '#!/bin/sh\necho "$ANTHROPIC_BASE_URL $ANTHROPIC_MODEL ${ANTHROPIC_API_KEY-none} $*"\nexit 7\n',
  );
  chmodSync(program, 0o755);
  const env = { ...process.env, PATH: [bin, process.env.PATH].join(delimiter), ANTHROPIC_API_KEY: "mine" };
  const launch = (...args: string[]) =>
    promisify(execFile)(process.execPath, ["bin/pagoda.js", "launch", ...args], { env }).then(
      ({ stdout }) => ({ code: 0, stdout, stderr: "" }),
      (error: { code: number; stdout: string; stderr: string }) => error,
    );
  const [ran, unknown, absent] = await Promise.all([
    launch("claude", "--url", host.url, "--", "-p", "a b"),
    launch("claude", "--url", host.url, "--model", "other"),
    launch("claude", "--url", "http://127.0.0.1:9"),
  ]);
  assert.deepEqual([ran.code, ran.stdout], [7, `${host.url} ${host.engine.model.name} none -p a b\n`]);
  assert.equal(unknown.code, 2);
  assert.ok(unknown.stderr.includes(host.engine.model.name), "it says what is served");
  assert.equal(absent.code, 2);
  rmSync(bin, { recursive: true });
});
