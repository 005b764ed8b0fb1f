// 120 streams at once, a third of which leave at random moments. Every other one gets exactly what it gets alone, no page is
// lost, memory stays flat. Also: slow readers, limits, and what a client that leaves costs.

import assert from "node:assert/strict";
import { request } from "node:http";
import { test } from "node:test";
import { streamChat } from "../../bench/load/stream-chat.js";
import { createEngine } from "../../src/engine/client/engine.js";
import { seeded } from "../support/byte-matcher.js";
import { startServer, type TestServer, until } from "../support/test-server.js";
import { ENDLESS, writeTinyCheckpoint } from "../support/tiny-checkpoint.js";

const NUM_STREAMS = 120;
const headers = { "content-type": "application/json" };

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

async function idle(host: TestServer): Promise<void> {
  await until(async () => {
    const { running, waiting, pagesUsed, pagesFree, pagesCached, pagesTotal } = await host.engine.stats();
    assert.equal(pagesFree + pagesCached + pagesUsed, pagesTotal);
    return running + waiting + pagesUsed === 0;
  }, "the engine is empty and every page is free or cached");
  await until(() => host.server.context.gate.active === 0, "every place is free");
}

test("120 concurrent streams, a third leaving: the others are exact, nothing leaks", async () => {
  await using host = await startServer({ model: writeTinyCheckpoint(), numPages: 513 }, { maxConcurrent: 64 });
  const leavesEarly = (i: number): boolean => i % 3 === 0;
  const bodies = Array.from({ length: NUM_STREAMS }, (_, i) => ({
    ...bodyOf(i),
    ...(leavesEarly(i) ? { max_tokens: 100 } : {}),
  }));
  const alone: string[] = [];
  for (const body of bodies) alone.push((await streamChat(host.url, body)).text);

  let cut = 0;
  const round = async (seed: number): Promise<void> => {
    const random = seeded(seed);
    // Half of them before any of it: what comes later may be all that is left, when this thread is behind.
    const leaveAfter = (i: number): number | undefined =>
      leavesEarly(i) ? (i % 2) * Math.floor(random() * 2000) : undefined;
    const replies = await Promise.all(
      bodies.map((body, i) => streamChat(host.url, body, { leaveAfter: leaveAfter(i) })),
    );
    for (const [i, { isWhole, text }] of replies.entries()) {
      assert.ok(isWhole || leavesEarly(i), `stream ${i} was cut`);
      if (isWhole) assert.equal(text, alone[i], `stream ${i}`);
      else assert.ok(alone[i]!.startsWith(text), `stream ${i} left with other text`);
      cut += isWhole ? 0 : 1;
    }
    await idle(host);
  };
  const heapAfterRound = async (seed: number): Promise<number> => {
    await round(seed);
    globalThis.gc!();
    return process.memoryUsage().heapUsed;
  };
  const used = [await heapAfterRound(1), await heapAfterRound(2)];
  assert.ok(cut > 36, `only ${cut} left`);
  // What leaks grows in every round; what is merely made late or freed late does not.
  const grown = (): number => used.at(-1)! - used.at(-2)!;
  while (grown() >= 3 * 2 ** 20 && used.length < 6) used.push(await heapAfterRound(used.length + 1));
  assert.ok(grown() < 3 * 2 ** 20, `the heap grew over 120 streams, every time: ${used}`);
});

test("a reader that never reads is held back, then dropped, and frees its place", async () => {
  await using host = await startServer({ model: writeTinyCheckpoint({ context: 4096 }) }, { slowReaderSeconds: 0.5 });
  const body = JSON.stringify({ ...bodyOf(1), max_tokens: 4000, logprobs: true, top_logprobs: 20 });
  const socket = request(`${host.url}/v1/chat/completions`, { method: "POST", headers });
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
  const { context, numPages, tokens } = ENDLESS;
  const model = writeTinyCheckpoint({ context });
  await using host = await startServer({ model, numPages }, { maxConcurrent: 1, maxQueued: 1 });
  const leave = new AbortController();
  const body = JSON.stringify({ ...bodyOf(1), max_tokens: tokens - 500 });
  const first = await fetch(`${host.url}/v1/chat/completions`, { method: "POST", headers, body, signal: leave.signal });
  await until(() => host.server.context.gate.active === 1, "the first is inside");
  const second = streamChat(host.url, bodyOf(2));
  await until(() => host.server.context.gate.queued === 1, "one waits");
  const third = await host.post("/v1/chat/completions", bodyOf(3));
  assert.equal(third.status, 429);
  assert.ok(Number(third.headers.get("retry-after")) >= 1);
  const { error } = (await third.json()) as { error: Record<string, unknown> };
  assert.deepEqual([error.type, error.code], ["rate_limit_error", "queue_full"]);
  leave.abort();
  await first.text().catch(() => undefined);
  assert.ok((await second).isWhole);
  assert.ok((await streamChat(host.url, bodyOf(3))).isWhole);
});

test("a client that leaves while it waits, or while its prompt is computed, costs nothing", async () => {
  // On this thread: it cannot compute on while the leaving is not heard of, however busy the machine.
  await using host = await startServer(
    { model: writeTinyCheckpoint({ context: 4096 }), worker: false, idealChunk: 16, maxPagesPerBatch: 1 },
    { maxConcurrent: 1 },
  );
  const long = { ...bodyOf(1), messages: [{ role: "user", content: "word ".repeat(700) }], max_tokens: 8 };
  const leave = new AbortController();
  const send = () =>
    fetch(`${host.url}/v1/chat/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify(long),
      signal: leave.signal,
    }).catch(() => null);
  const [computing, waiting] = [send(), send()];
  await until(() => host.server.context.gate.queued === 1, "one computes, one waits", 0);
  leave.abort();
  await Promise.all([computing, waiting]);
  await until(() => host.server.context.gate.active === 0 && host.server.context.gate.queued === 0, "both are gone");
  await idle(host);
  const { generatedTokens } = await host.engine.stats();
  assert.equal(generatedTokens, 0);
});

test("a short prompt that arrives while a 4,000-token prompt is computed has its first token within two steps", async () => {
  const model = writeTinyCheckpoint({ context: 8192 });
  // On this thread: what is asked between two steps is there before the next one, however busy the machine.
  await using engine = await createEngine({ model, threads: 2, worker: false, maxPagesPerBatch: 8, idealChunk: 64 });
  const prompt = Array.from({ length: 4000 }, (_, i) => i % 200); // 128 of them a step
  const long = engine.generate(prompt, { maxTokens: 1 }).result();
  await until(() => engine.inspect.history().length > 0, "the long prompt is being computed", 0);
  const before = engine.inspect.history().at(-1)!.step;
  const short = engine.generate([1, 2], { maxTokens: 1 });
  assert.equal((await short.result()).trace.steps, 1);
  const first = engine.inspect.history().find((step) => step.rows.some((row) => row.id === short.id))!;
  assert.ok(first.step - before <= 2, `${first.step - before} steps began after it came`);
  assert.ok(first.rows.length === 2 && first.rows.every((row) => row.isPrefill), "it joined the long prompt's step");
  await long;
});
