// The native library alone, under the address and undefined-behaviour sanitizers: native/cpu/test on every instruction set.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const sources = join(root, "native", "cpu", "test");
/** The float tiles of avx512 that this processor does not take: one section alone knows them. */
const OTHER_TILES = "101";

test("native tests run clean under the sanitizers", (t) => {
  const build = spawnSync(process.execPath, ["scripts/build-native.mjs", "--test"], { cwd: root, encoding: "utf8" });
  const program = build.stdout.trim();
  if (build.status === 0 && !existsSync(program)) return t.skip(build.stderr.trim()); // no compiler here
  assert.equal(build.status, 0, build.stdout + build.stderr);
  // GCC 13 keeps frames for use-after-return on a heap that is not aligned for AVX-512: its own aligned stores then fault.
  // Undefined behaviour is an illegal instruction: it says where.
  const env = { ...process.env, ASAN_OPTIONS: "detect_stack_use_after_return=0:handle_sigill=1" };
  const run = spawnSync(program, { encoding: "utf8", env });
  assert.equal(run.status, 0, run.stdout + run.stderr);
  // Every section ran, on every instruction set that is one.
  const names = readdirSync(sources).flatMap((file) =>
    Array.from(readFileSync(join(sources, file), "utf8").matchAll(/^TEST\((\w+)\)/gm), ([, name]) => name!),
  );
  const ran = Array.from(run.stdout.matchAll(/^ok (\d+) (\w+)$/gm), ([, isa, name]) => `${isa} ${name}`);
  const isas = new Set(ran.map((line) => line.split(" ")[0]!));
  assert.ok(names.length >= 12 && isas.has("1"), run.stdout);
  const namesFor = (isa: string) => (isa === OTHER_TILES ? ["rows_do_not_depend_on_each_other"] : names);
  assert.deepEqual(
    ran.toSorted(),
    [...isas].flatMap((isa) => namesFor(isa).map((name) => `${isa} ${name}`)).toSorted(),
  );
});
