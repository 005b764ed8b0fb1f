// Every example runs by the README's command, against the bundled model.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { promisify } from "node:util";

const run = promisify(execFile);

async function output(name: string): Promise<string> {
  const { stdout } = await run(process.execPath, ["scripts/run-example.mjs", name], { timeout: 240_000 });
  return stdout;
}

test("six-lines tells a story", async () => {
  const story = await output("six-lines");
  assert.ok(story.length > 40 && /[a-z]+ [a-z]+.*[.!?]/s.test(story), story); // a new one every time
});

test("the README shows examples/six-lines.ts as it is", () => {
  const program = readFileSync("examples/six-lines.ts", "utf8").split("\n").slice(1).join("\n");
  assert.ok(readFileSync("README.md", "utf8").includes(program.trim()), "README.md and the example differ");
  assert.ok(program.trim().split("\n").length <= 6, "the README promises six lines");
});

test("the README links every example; another name is told which there are", async () => {
  const readme = readFileSync("README.md", "utf8");
  const names = readdirSync("examples").map((file) => file.replace(/\.ts$/, ""));
  for (const name of names) assert.ok(readme.includes(`[${name}](examples/${name}.ts)`), name);
  await assert.rejects(output("no-such"), { code: 2, stderr: new RegExp(`one of: ${names.join(", ")}\n$`) });
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

test("semantic-search ranks all documents", async () => {
  const lines = (await output("semantic-search")).trim().split("\n");
  assert.equal(lines.length, 3);
  const scores = lines.map((line) => Number.parseFloat(line));
  assert.ok(
    scores.every((score, i) => Math.abs(score) <= 1.001 && (i === 0 || score <= scores[i - 1]!)),
    lines.join(),
  );
});

test("typed-object gives a value of its schema", async () => {
  const [line, json] = (await output("typed-object")).trim().split("\n");
  const object = JSON.parse(json!) as { name: string; age: number; likes: string[] };
  assert.ok(object.name.length <= 12 && object.age >= 1 && object.age <= 999 && object.likes.length <= 3, line);
});

test("openai-client streams a story", async () => {
  assert.match(await output("openai-client"), /^Once upon a time[\s\S]*\(15 \+ 60 tokens\)\s*$/);
});

test("ai-sdk tells and feeds", async () => {
  assert.match(await output("ai-sdk"), /The (cat|dog|dragon) ate \d+ g\./);
});
