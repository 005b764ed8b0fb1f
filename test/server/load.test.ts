// 200 streams at once, a third of which leave at random moments. Every other one gets exactly what it gets alone, no page is
// lost, memory stays flat. Also: slow readers, limits, and what a client that leaves costs.

import assert from "node:assert/strict";
import { request } from "node:http";
import { test } from "node:test";
import { seeded } from "../support/byte-matcher.js";
import { startServer, type TestServer, until } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const NUM_STREAMS = 200;

function bodyOf(i: number): Record<string, unknown> {
  const content = `Request ${i % 50}: ${"tell me more. ".repeat(i % 7)}`;
  return {
    messages: [
      { role: "system", content: "You are one of many." },
      { role: "user", content },
    ],
    stream: true,
    temperature: i % 2 === 0 ? 0 : 1,
    seed: i,
    max_tokens: 8 + (i % 17),
    ignore_eos: true,
  };
}

interface Reply {
  readonly text: string;
  readonly isWhole: boolean;
}

/** Streams a reply; leaves after `leaveAfter` bytes. */
async function stream(host: TestServer, body: unknown, leaveAfter = Number.POSITIVE_INFINITY): Promise<Reply> {
  const controller = new AbortController();
  const response = await fetch(`${host.url}/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify(body),
    signal: controller.signal,
  });
  assert.equal(response.status, 200);
  let raw = "";
  try {
    for await (const piece of response.body!) {
      raw += Buffer.from(piece).toString();
      if (raw.length >= leaveAfter) {
        controller.abort();
        break;
      }
    }
  } catch (error) {
    if (!controller.signal.aborted) throw error;
  }
  let text = "";
  for (const line of raw.split("\n")) {
    if (!line.startsWith("data: {")) continue;
    try {
      text += JSON.parse(line.slice(6)).choices[0]?.delta.content ?? "";
    } catch {
      break; // cut where the client left
    }
  }
  return { text, isWhole: raw.endsWith("data: [DONE]\n\n") };
}

async function idle(host: TestServer): Promise<void> {
  await until(async () => {
    const { running, waiting, pagesUsed, pagesFree, pagesCached, pagesTotal } = await host.engine.stats();
    assert.equal(pagesFree + pagesCached + pagesUsed, pagesTotal);
    return running + waiting + pagesUsed === 0;
  }, "the engine is empty and every page is free or cached");
  assert.equal(host.server.context.gate.active, 0);
}

test("200 concurrent streams, a third leaving: the others are exact, nothing leaks", async () => {
  await using host = await startServer({ model: writeTinyCheckpoint(), numPages: 257 }, { maxConcurrent: 64 });
  const alone: string[] = [];
  for (let i = 0; i < NUM_STREAMS; i++) alone.push((await stream(host, bodyOf(i))).text);

  const round = async (seed: number): Promise<number> => {
    const random = seeded(seed);
    const leaves = Array.from({ length: NUM_STREAMS }, (_, i) =>
      i % 3 === 0 ? Math.floor(random() * 3000) : undefined,
    );
    const replies = await Promise.all(leaves.map((after, i) => stream(host, bodyOf(i), after)));
    let whole = 0;
    for (const [i, reply] of replies.entries()) {
      if (leaves[i] === undefined) assert.ok(reply.isWhole, `stream ${i} was cut`);
      if (reply.isWhole) {
        whole++;
        assert.equal(reply.text, alone[i], `stream ${i}`);
      } else assert.ok(alone[i]!.startsWith(reply.text), `stream ${i} left early with other text`);
    }
    await idle(host);
    return whole;
  };
  assert.ok((await round(1)) < NUM_STREAMS, "some left");
  globalThis.gc!();
  const before = process.memoryUsage().heapUsed;
  await round(2);
  await round(3);
  globalThis.gc!();
  const grown = process.memoryUsage().heapUsed - before;
  assert.ok(grown < 8 * 2 ** 20, `the heap grew by ${grown} bytes over 400 streams`);
});

test("a reader that never reads is held back, then dropped, and frees its place", async () => {
  await using host = await startServer({ model: writeTinyCheckpoint({ context: 4096 }) }, { slowReaderSeconds: 0.5 });
  const body = JSON.stringify({ ...bodyOf(1), max_tokens: 4000, logprobs: true, top_logprobs: 20 });
  const socket = request(`${host.url}/v1/chat/completions`, { method: "POST" });
  socket.on("error", () => undefined);
  socket.end(body);
  const response = await new Promise<import("node:http").IncomingMessage>((resolve) => socket.on("response", resolve));
  response.on("error", () => undefined);
  response.pause(); // takes nothing: the kernel's buffers fill, then the server waits
  await until(() => host.server.context.gate.active === 0, "the reader is dropped");
  await idle(host);
  socket.destroy();
});

test("full: 429 with Retry-After, in OpenAI's shape; room again when one leaves", async () => {
  const model = writeTinyCheckpoint({ context: 16_384 });
  await using host = await startServer({ model }, { maxConcurrent: 1, maxQueued: 1 });
  const leave = new AbortController();
  const body = JSON.stringify({ ...bodyOf(1), max_tokens: 16_000 });
  const first = await fetch(`${host.url}/v1/chat/completions`, { method: "POST", body, signal: leave.signal });
  assert.equal(host.server.context.gate.active, 1);
  const second = stream(host, bodyOf(2));
  await until(() => host.server.context.gate.queued === 1, "one waits");
  const third = await host.post("/v1/chat/completions", bodyOf(3));
  assert.equal(third.status, 429);
  assert.ok(Number(third.headers.get("retry-after")) >= 1);
  const { error } = (await third.json()) as { error: Record<string, unknown> };
  assert.deepEqual([error.type, error.code], ["rate_limit_error", "queue_full"]);
  leave.abort();
  await first.text().catch(() => undefined);
  assert.ok((await second).isWhole);
  assert.ok((await stream(host, bodyOf(3))).isWhole);
});

test("a client that leaves while it waits, or while its prompt is computed, costs nothing", async () => {
  await using host = await startServer(
    { model: writeTinyCheckpoint({ context: 4096 }), idealChunk: 16, maxPagesPerBatch: 1 },
    { maxConcurrent: 1 },
  );
  const long = { ...bodyOf(1), messages: [{ role: "user", content: "word ".repeat(700) }], max_tokens: 8 };
  const leave = new AbortController();
  const send = () =>
    fetch(`${host.url}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify(long),
      signal: leave.signal,
    }).catch(() => null);
  const [computing, waiting] = [send(), send()];
  await until(() => host.server.context.gate.queued === 1, "one computes, one waits");
  leave.abort();
  await Promise.all([computing, waiting]);
  await until(() => host.server.context.gate.active === 0 && host.server.context.gate.queued === 0, "both are gone");
  await idle(host);
  const { generatedTokens } = await host.engine.stats();
  assert.equal(generatedTokens, 0);
});
