// Every example runs as it is printed, against the bundled model.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { promisify } from "node:util";

const run = promisify(execFile);

async function output(name: string): Promise<string> {
  const { stdout } = await run(process.execPath, [`dist/examples/${name}.js`], { timeout: 120_000 });
  return stdout;
}

test("six-lines tells a story", async () => {
  const story = await output("six-lines");
  assert.ok(story.length > 40 && /[.!?"]\s*$/.test(story), story);
});

test("the README shows examples/six-lines.ts as it is", () => {
  const program = readFileSync("examples/six-lines.ts", "utf8").split("\n").slice(1).join("\n");
  assert.ok(readFileSync("README.md", "utf8").includes(program.trim()), "README.md and the example differ");
  assert.ok(program.trim().split("\n").length <= 6, "the README promises six lines");
});

test("shared-prefix answers from cached pages", async () => {
  const text = await output("shared-prefix");
  const cached = [...text.matchAll(/(\d+) of (\d+) prompt tokens came from the cache/g)];
  assert.equal(cached.length, 3);
  for (const [, hit, all] of cached) assert.ok(Number(hit) >= 64 && Number(hit) < Number(all), `${hit} of ${all}`);
});

test("watch-steps shows a step that mixes prefill and decode", async () => {
  const text = await output("watch-steps");
  assert.match(text, /step \d+: \d+ tokens \((?=[^)]*prefill)(?=[^)]*decode)/);
});
