import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import type { Findings } from "./doctor.js";

test("doctor tells in JSON what an engine would take here, and why", () => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["bin/pagoda.js", "doctor", "--json"], {
    encoding: "utf8",
    env: { ...process.env, CXX: "no-such-compiler" },
  });
  assert.equal(status, 0, stderr);
  const found = JSON.parse(stdout) as Findings;
  assert.equal(found.node, process.version);
  assert.equal(found.compiler, null);
  assert.ok(found.webgpu.length > 0);
  assert.ok(found.cores.used >= 1 && found.cores.used <= found.cores.visible);
  assert.ok(found.memoryBandwidth! > 0); // of a busy machine hardly any is left
  assert.ok(["cuda", "webgpu", "cpu", "wasm"].includes(found.device.name), found.device.name);
  if (found.device.name === "cpu")
    assert.ok(found.instructionSets.includes(found.device.description.match(/for (\w+)/)![1]!));
  else if (found.device.name === "wasm") assert.match(found.advice.join(), /g\+\+/);
});
