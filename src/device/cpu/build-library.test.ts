import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

test("a build passes on its words and leaves a pipe of ours as it was: writing to it never waits", {
  skip: process.platform === "linux" ? false : "needs /proc",
}, () => {
  const script = join(mkdtempSync(join(tmpdir(), "pagoda-build-")), "build.mjs");
  writeFileSync(script, `process.stderr.write("compiling\\n"); console.log("/the/library");`);
  const program = `
    import { readFileSync } from "node:fs";
    import { buildLibrary } from ${JSON.stringify(new URL("./build-library.js", import.meta.url).href)};
    const isWaiting = () => (Number.parseInt(/flags:\\s*(\\d+)/.exec(readFileSync("/proc/self/fdinfo/2", "utf8"))[1], 8) & 0o4000) === 0;
    process.stderr.write("before\\n");
    const before = isWaiting();
    const path = await buildLibrary(${JSON.stringify(script)});
    console.log(JSON.stringify({ path, before, after: isWaiting() }));
  `;
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
  assert.deepEqual(JSON.parse(stdout), { path: "/the/library", before: false, after: false }, stderr);
  assert.equal(stderr, "before\ncompiling\n");
});
