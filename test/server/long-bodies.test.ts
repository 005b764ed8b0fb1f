// Long bodies, right and wrong, are parsed and long answers written without holding up the server's thread: it never parses more than a
// short body at once, and serves others between the pieces of an answer.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startServer, type TestServer } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const CHAT = "/v1/chat/completions";
const LONG = 65_536;

let host: TestServer;
before(async () => {
  host = await startServer({ model: writeTinyCheckpoint({ context: 4096 }) });
});
after(() => host[Symbol.asyncDispose]());

const codeOf = async (response: Response): Promise<string | number> =>
  response.status === 200 ? 200 : ((await response.json()) as { error: { code: string } }).error.code;

test("bodies of more than 64 KiB are not parsed on the server's thread, and answered as any other", async (t) => {
  const { parse } = JSON;
  let longest = 0;
  t.after(() => {
    JSON.parse = parse;
  });
  JSON.parse = (text: string, ...rest: []) => {
    longest = Math.max(longest, text.length);
    return parse(text, ...rest);
  };
  const word = "a".repeat(50_000); // fits into a context by its length, and is found too long when it has been tokenised
  const many = (count: number) => Array.from({ length: count }, () => ({ role: "user", content: "" }));
  const cases: [string, unknown, string | number][] = [
    [CHAT, { messages: [{ role: "user", content: "hi" }], max_tokens: 1, stop: [], user: "u".repeat(LONG) }, 200],
    [CHAT, { messages: [{ role: "user", content: `${word}${word}` }], max_tokens: 1 }, "context_length_exceeded"],
    [CHAT, { messages: many(8193) }, "invalid_value"],
    [
      CHAT,
      { messages: [], logit_bias: Object.fromEntries(Array.from({ length: 8193 }, (_, i) => [i, 1])) },
      "invalid_value",
    ],
    [CHAT, { messages: [], odd: new Array(600_000).fill(1) }, "invalid_json"],
    [CHAT, `{"odd": [${"1,".repeat(LONG)}`, "invalid_json"],
    ["/tokenize", { prompt: word.repeat(2) }, 200],
    ["/v1/load_lora_adapter", { lora_name: "x".repeat(LONG), lora_path: "y" }, "body_too_large"],
  ];
  for (const [path, body, expected] of cases) assert.equal(await codeOf(await host.post(path, body)), expected, path);
  assert.ok(longest > 0 && longest <= LONG, `${longest}`);
});

/** Their bodies are names and paths. */
const SHORT = ["/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/api/show", "/api/pull", "/v1/batches"];

test("every other route takes long bodies", async () => {
  const paths = new Set(host.server.app.routes.filter(({ method }) => method === "POST").map(({ path }) => path));
  assert.ok(paths.size > 15);
  for (const path of paths) {
    const response = await host.post(path, { odd: "x".repeat(LONG) });
    const isShort = SHORT.includes(path);
    assert.equal(response.status === 413, isShort, `${path} ${response.status}`);
    await response.arrayBuffer();
  }
});

test("many tokens are written as few are", async () => {
  const prompt = "ab ".repeat(20_000);
  const reply = await host.post("/tokenize", { prompt, return_token_strs: true });
  const { count, tokens, token_strs } = (await reply.json()) as Record<"tokens" | "token_strs", never[]> & {
    count: number;
  };
  assert.ok(count > 16_384);
  assert.deepEqual(tokens, host.engine.tokenizer.encode(prompt));
  assert.equal(token_strs.length, count);
  assert.ok(token_strs.join("").includes(prompt.trim()));
});
