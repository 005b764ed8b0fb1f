import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { withLock } from "./file-lock.js";

const NOBODY = "999999999";
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pagoda-lock-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

test("one at a time; the file says who", async () => {
  const path = join(folder, "lock");
  let inside = 0;
  const done = await Promise.all(
    Array.from({ length: 8 }, (_, i) =>
      withLock(
        path,
        async () => {
          assert.equal(++inside, 1);
          assert.equal(readFileSync(path, "utf8"), String(process.pid));
          await turn();
          inside--;
          return i;
        },
        1,
      ),
    ),
  );
  assert.deepEqual(done, [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.ok(!existsSync(path));
});

test("a lock that a dead process left has one heir, however many saw it", async () => {
  for (let round = 0; round < 20; round++) {
    const path = join(folder, `lock-${round}`);
    writeFileSync(path, NOBODY);
    let inside = 0;
    const take = () =>
      withLock(
        path,
        async () => {
          assert.equal(++inside, 1);
          for (let i = 0; i < 3; i++) await turn();
          inside--;
        },
        1,
      );
    await Promise.all(Array.from({ length: 12 }, take));
    assert.ok(!existsSync(path) && !existsSync(`${path}.clearing`));
  }
});

test("who was about to remove an abandoned lock may have died too", async () => {
  const path = join(folder, "lock");
  for (const left of [path, `${path}.clearing`]) writeFileSync(left, NOBODY);
  assert.equal(await withLock(path, () => Promise.resolve(7), 1), 7);
  assert.ok(!existsSync(path) && !existsSync(`${path}.clearing`));
});

test("work that fails gives the lock back; a folder that is not there is an error", async () => {
  const path = join(folder, "lock");
  await assert.rejects(
    withLock(path, () => Promise.reject(new Error("spoilt"))),
    /spoilt/,
  );
  assert.ok(!existsSync(path));
  await assert.rejects(
    withLock(join(folder, "none", "lock"), () => Promise.resolve()),
    { code: "ENOENT" },
  );
});
