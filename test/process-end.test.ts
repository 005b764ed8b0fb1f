// A program's end: one that forgets close() ends when its work is done, and not before.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const library = new URL("../src/index.js", import.meta.url).href;

function run(program: string) {
  const source = `import { createEngine } from ${JSON.stringify(library)};\n${program}`;
  const args = ["--input-type=module", "--eval", source];
  return spawnSync(process.execPath, args, { encoding: "utf8", timeout: 240_000 });
}

for (const worker of [true, false]) {
  test(`an engine ${worker ? "with a thread of its own" : "in process"} does not keep an idle program alive`, () => {
    const options = JSON.stringify({ model: writeTinyCheckpoint(), worker });
    const { status, stdout, stderr, signal } = run(`
      const engine = await createEngine(${options});
      const { samples } = await engine.generate("hello", { maxTokens: 3, ignoreEos: true, temperature: 0 }).result();
      const { steps } = await engine.stats();
      console.log(samples[0].tokenIds.length, steps > 0);
    `);
    assert.deepEqual([status, signal, stdout], [0, null, "3 true\n"], stderr);
  });
}

test("an answer nobody awaits is still computed to its end", () => {
  const options = JSON.stringify({ model: writeTinyCheckpoint() });
  const { status, stdout, stderr } = run(`
    const engine = await createEngine(${options});
    engine.generate([1, 2, 3], { maxTokens: 5, ignoreEos: true }).result().then((r) => console.log(r.trace.completionTokens));
  `);
  assert.deepEqual([status, stdout], [0, "5\n"], stderr);
});

test("an engine whose model cannot be read says so and leaves no thread behind", () => {
  const model = writeTinyCheckpoint();
  writeFileSync(join(model, "tokenizer.json"), "{");
  const { status, stdout, stderr } = run(`
    await createEngine(${JSON.stringify({ model })}).catch(({ code }) => console.log(code));
  `);
  assert.deepEqual([status, stdout], [0, "file_corrupt\n"], stderr);
});

test("a text that a thread tokenises keeps the program alive, and the thread alone does not", () => {
  const module = JSON.stringify(new URL("../src/engine/client/text-thread.js", import.meta.url).href);
  const { status, stdout, stderr } = run(`
    const { TextThread } = await import(${module});
    const thread = new TextThread(${JSON.stringify(writeTinyCheckpoint())});
    const lengths = [];
    for (const text of ["a", "bc"]) lengths.push((await thread.run("encode", { text, options: { addSpecialTokens: false } })).length);
    console.log(lengths.join());
  `);
  assert.deepEqual([status, stdout], [0, "1,2\n"], stderr);
});
