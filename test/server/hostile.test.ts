// Bodies that are too large, too slow, no JSON or no UTF-8: the right 4xx each, and the service stays up. Fuzzed ones: test/fuzz/.

import assert from "node:assert/strict";
import { request } from "node:http";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { startServer, type TestServer, until } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

let host: TestServer;
before(async () => {
  host = await startServer({ model: writeTinyCheckpoint(), maxContext: 48 }, { maxBodyMb: 1 });
});
after(async () => host?.[Symbol.asyncDispose]());

async function errorOf(response: Response): Promise<{ code: string; param: string | null; message: string }> {
  const body = (await response.json()) as { error: { code: string; param: string | null; message: string } };
  assert.equal(typeof body.error.message, "string");
  return body.error;
}

/** On a connection of its own: the server may end one whose body it refused while the next request is on its way. */
function postAlone(path: string, body: string): Promise<Response> {
  return new Promise((resolve, reject) => {
    const init = { method: "POST", agent: false, headers: { "content-type": "application/json" } } as const;
    const call = request(host.url + path, init, async (response) => {
      const text = (await response.toArray()).join("");
      resolve(new Response(text, { status: response.statusCode! }));
    });
    call.on("error", reject);
    call.end(body);
  });
}

async function isUp(): Promise<void> {
  const isHealthy = () =>
    fetch(`${host.url}/health`).then(
      ({ status }) => status === 200,
      () => false, // the connection was one that the server has ended
    );
  await until(isHealthy, "it serves");
  const reply = await host.post("/v1/completions", { prompt: "a", max_tokens: 2 });
  assert.equal(reply.status, 200);
  await reply.json();
}

test("a 3 MB body is refused with 413, announced or not", async () => {
  const big = `{"prompt": "${"x".repeat(3 * 2 ** 20)}"}`;
  // A client that is still sending hears the answer: the connection is not closed on it, or it would be told of a broken pipe.
  for (let i = 0; i < 5; i++) {
    const response = await postAlone("/v1/completions", big);
    assert.equal(response.status, 413);
    assert.equal((await errorOf(response)).code, "body_too_large");
  }
  // Chunked: no content-length tells ahead.
  const chunked = new ReadableStream({
    start: (controller) => {
      for (let i = 0; i < 20; i++) controller.enqueue(Buffer.alloc(2 ** 17, 0x20));
      controller.close();
    },
  });
  const streamed = await fetch(`${host.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: chunked,
    duplex: "half",
  } as RequestInit);
  assert.equal(streamed.status, 413);
  await isUp();
});

test("a text that no context can hold is refused while it is being sent, and its connection serves on, however slow", async () => {
  const { port, hostname } = new URL(host.url);
  const socket = connect(Number(port), hostname);
  let answer = "";
  socket.on("data", (data) => {
    answer += data;
  });
  const answered = (status: number) => until(() => answer.includes(`HTTP/1.1 ${status}`), `an answer of ${status}`);
  const start = '{"prompt": "';
  const length = 500_000;
  const head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
  socket.write(`${head}Content-Length: ${length}\r\n\r\n${start}${"x".repeat(20_000)}`);
  await answered(400);
  assert.match(answer, /"context_length_exceeded"/);
  const body = '{"prompt": "a", "max_tokens": 2}';
  await sleep(600); // longer than the listener would wait
  socket.write("x".repeat(length - 20_000 - start.length)); // nobody looks at it
  socket.write(`${head}Content-Length: ${body.length}\r\n\r\n${body}`);
  await answered(200);
  socket.destroy();
});

test("a long text is tokenised as any other, a body of too many values is not parsed", async () => {
  const prompt = "Once upon a time, wörld! ".repeat(3000);
  const reply = await host.post("/tokenize", { prompt });
  const { tokens } = (await reply.json()) as { tokens: number[] };
  assert.deepEqual(tokens, host.engine.tokenizer.encode(prompt));
  const many = await host.post("/v1/completions", `{"prompt": "a", "stop": [${"{},".repeat(100_000)}{}]}`);
  assert.equal(many.status, 400);
  assert.match((await errorOf(many)).message, /more than 100000 objects and lists/);
});

test("malformed JSON, invalid UTF-8, wrong shapes: 400", async () => {
  const cases: [string | Uint8Array, string][] = [
    ["", "invalid_json"],
    ["{", "invalid_json"],
    ["[1, 2", "invalid_json"],
    [Uint8Array.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]), "invalid_json"],
    ["null", "invalid_value"],
    ["[]", "invalid_value"],
    ['"text"', "invalid_value"],
    ['{"prompt": {}}', "invalid_value"],
    ['{"prompt": []}', "invalid_value"],
    ['{"prompt": [99999]}', "token_out_of_range"],
    ['{"prompt": ""}', "empty_prompt"],
    [`{"prompt": ${"[".repeat(150)}${"]".repeat(150)}}`, "invalid_value"],
    [`{"prompt": ${"[".repeat(50_000)}${"]".repeat(50_000)}}`, "invalid_json"],
    [`{"prompt": "a", "guided_json": ${'{"items":'.repeat(50_000)}{}${"}".repeat(50_000)}}`, "invalid_json"],
    [`{"prompt": "a", "guided_json": ${'{"items":'.repeat(150)}{}${"}".repeat(150)}}`, "invalid_schema"],
    ['{"prompt": "a", "guided_grammar": "root ::= root"}', "invalid_grammar"],
  ];
  for (const [body, code] of cases) {
    const response = await host.post("/v1/completions", body);
    assert.equal(response.status, 400, String(body).slice(0, 40));
    assert.equal((await errorOf(response)).code, code, String(body).slice(0, 40));
  }
  await isUp();
});

test("a client that sends its request in drops is cut off", async () => {
  // On a server of its own: others send large bodies, and a busy machine may be slow with them.
  await using hasty = await startServer({ model: writeTinyCheckpoint() }, { requestTimeoutSeconds: 1 });
  const { port, hostname } = new URL(hasty.url);
  const socket = connect(Number(port), hostname);
  let answer = "";
  socket.on("data", (data) => {
    answer += data;
  });
  const closed = new Promise((resolve) => socket.on("close", resolve));
  socket.on("error", () => undefined);
  socket.write(
    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
  );
  const drip = setInterval(() => socket.write("x"), 200);
  await closed;
  clearInterval(drip);
  assert.match(answer, /^(HTTP\/1\.1 408|$)/);
  await until(async () => (await fetch(`${hasty.url}/health`)).ok, "others are served");
});
