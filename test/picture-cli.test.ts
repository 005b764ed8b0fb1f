// Pictures from the command line: one answer, and a conversation that is saved with its pictures.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type ChatMessage, createEngine } from "../src/index.js";
import { seeingCheckpoint } from "./support/seeing-checkpoint.js";

const OWN = "test/goldens-vision/qwen3vl";
const [FIRST, SECOND] = [`${OWN}/image-2-0.png`, `${OWN}/image-2-1.png`];
const model = seeingCheckpoint(OWN, "qwen3vl");
const FLAGS = [
  "--model",
  model,
  "--device",
  "reference",
  "--temperature",
  "0",
  "--max-tokens",
  "4",
  "--kv-dtype",
  "f32",
];

const run = (args: readonly string[], input = "") =>
  spawnSync(process.execPath, ["dist/src/cli/main.js", ...args, ...FLAGS], { encoding: "utf8", input });

const urlOf = (file: string): string => `data:image;base64,${readFileSync(file).toString("base64")}`;

test("generate and chat show the model pictures, which a saved conversation keeps", async () => {
  await using engine = await createEngine({ model, device: "reference", kvDtype: "f32", worker: false });
  const asked = (text: string, file: string): ChatMessage => ({
    role: "user",
    content: [
      { type: "image", image: urlOf(file) },
      { type: "text", text },
    ],
  });
  const options = { temperature: 0, maxTokens: 4 };
  const expected = await engine.generate([asked("Which?", FIRST)], options);
  const { stdout, status } = run(["generate", "Which?", "--image", FIRST, "--json"]);
  assert.equal(status, 0);
  const { samples, trace } = JSON.parse(stdout);
  assert.deepEqual(samples[0].tokenIds, expected.samples[0]!.tokenIds);
  assert.equal(trace.promptTokens, expected.trace.promptTokens);
  assert.notEqual(run(["generate", "Which?", "--image", "no/such/file.png"]).status, 0);
  assert.notEqual(run(["generate", "Which?", "--raw", "--image", FIRST]).status, 0);

  const kept = join(mkdtempSync(join(tmpdir(), "pagoda-kept-")), "talk.json");
  const talk = run(
    ["chat", "--image", FIRST],
    `Which?\n/image no/such/file\n/image ${SECOND}\nAnd now?\n/save ${kept}\n/exit\n`,
  );
  assert.equal(talk.status, 0, talk.stderr);
  const messages = JSON.parse(readFileSync(kept, "utf8")) as ChatMessage[];
  assert.deepEqual(messages[0], asked("Which?", FIRST));
  assert.deepEqual(messages[2], asked("And now?", SECOND));
  assert.equal(messages[1]!.content, expected.text);
});
