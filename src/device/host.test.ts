import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { availableCores, availableMemory, macMemory, quotaCores } from "./host.js";

function withFolder(body: (folder: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-host-"));
  try {
    body(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("the tightest quota on the way to the root counts", () => {
  withFolder((root) => {
    const membership = join(root, "self");
    mkdirSync(join(root, "a", "b"), { recursive: true });
    writeFileSync(membership, "0::/a/b\n");
    assert.equal(quotaCores(root, membership), Number.POSITIVE_INFINITY);
    writeFileSync(join(root, "a", "b", "cpu.max"), "max 100000\n");
    assert.equal(quotaCores(root, membership), Number.POSITIVE_INFINITY);
    writeFileSync(join(root, "a", "cpu.max"), "150000 100000\n");
    assert.equal(quotaCores(root, membership), 1.5);
    writeFileSync(join(root, "cpu.max"), "50000 100000\n");
    assert.equal(quotaCores(root, membership), 0.5);
  });
});

test("control groups of version 1", () => {
  withFolder((root) => {
    mkdirSync(join(root, "cpu"));
    writeFileSync(join(root, "cpu", "cpu.cfs_quota_us"), "-1\n");
    writeFileSync(join(root, "cpu", "cpu.cfs_period_us"), "100000\n");
    assert.equal(quotaCores(root, join(root, "none")), Number.POSITIVE_INFINITY);
    writeFileSync(join(root, "cpu", "cpu.cfs_quota_us"), "400000\n");
    assert.equal(quotaCores(root, join(root, "none")), 4);
  });
});

test("there is at least one core and some memory, and never more cores than processors", () => {
  assert.ok(availableCores() >= 1 && availableCores() <= availableParallelism());
  assert.ok(availableMemory() > 0);
});

test("on macOS memory counts what is given up on demand", () => {
  const text = `Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                                4000.
Pages active:                            300000.
Pages inactive:                          200000.
Pages speculative:                         1000.
Pages throttled:                              0.
Pages wired down:                        100000.
Pages purgeable:                            500.
`;
  assert.equal(macMemory(text), 16384 * 205_500);
  assert.ok(macMemory("") > 0);
});
