// What goes out as it comes: several sources as one, events with their silences, and readers that leave or take nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Context } from "hono";
import type { Call } from "./calls/call.js";
import { mergeInOrder } from "./calls/merge.js";
import { streamCall } from "./calls/stream-call.js";
import type { AppEnv } from "./context.js";
import { type ServerEvent, type SseOptions, sseResponse } from "./http/sse.js";

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("sources are one, each value as soon as it is there; who leaves early, or fails, ends them all", async () => {
  const ended: string[] = [];
  async function* source(name: string, count: number, isFailing = false): AsyncGenerator<string> {
    try {
      for (let i = 0; i < count; i++) yield `${name}${i}`;
      if (isFailing) throw new Error(name);
    } finally {
      ended.push(name);
    }
  }
  const all = async (...sources: AsyncGenerator<string>[]) => {
    const found: string[] = [];
    for await (const { source, value } of mergeInOrder(sources)) found.push(`${source}:${value}`);
    return found.sort();
  };
  assert.deepEqual(await all(), []);
  assert.deepEqual(await all(source("a", 2), source("b", 0), source("c", 1)), ["0:a0", "0:a1", "2:c0"]);
  assert.deepEqual(ended.splice(0).sort(), ["a", "b", "c"]);
  for await (const { value } of mergeInOrder([source("a", 9), source("b", 9)])) if (value === "b1") break;
  await turn();
  assert.deepEqual(ended.splice(0).sort(), ["a", "b"]);
  await assert.rejects(all(source("a", 9), source("b", 1, true)), /b/);
  await turn();
  assert.deepEqual(ended.splice(0).sort(), ["a", "b"]);
});

/** A source that gives what it is told to, when it is told to. */
class Told {
  readonly events: string[] = [];
  readonly response: Response;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #give: ((result: IteratorResult<ServerEvent>) => void) | null = null;
  #fail: ((error: Error) => void) | null = null;

  constructor(options: Partial<SseOptions> = {}) {
    const config = { streamKeepAliveSeconds: 4, slowReaderSeconds: 8 };
    const log = { warn: (_: object, text: string) => void this.events.push(text) };
    const env = { outgoing: { destroy: () => void this.events.push("destroyed") } };
    const c = { get: (key: string) => (key === "log" ? log : { config }), env } as unknown as Context<AppEnv>;
    const source: AsyncIterator<ServerEvent> = {
      next: () =>
        new Promise((resolve, reject) => {
          this.#give = resolve;
          this.#fail = reject;
        }),
      return: async () => {
        this.events.push("returned");
        return { done: true, value: undefined };
      },
    };
    this.response = sseResponse(c, source, {
      leave: () => void this.events.push("left"),
      ended: () => void this.events.push("ended"),
      ...options,
    });
    this.#reader = this.response.body!.getReader();
  }

  async read(): Promise<string | null> {
    const { done, value } = await this.#reader.read();
    return done ? null : new TextDecoder().decode(value);
  }

  give(event: ServerEvent | null): void {
    this.#give!(event === null ? { done: true, value: undefined } : { done: false, value: event });
  }

  fail(): void {
    this.#fail!(new Error("broken"));
  }

  leave(): Promise<void> {
    return this.#reader.cancel();
  }
}

/** Asks for the next piece, and gives it once it has been asked for. */
async function exchanged(told: Told, event: ServerEvent | null): Promise<string | null> {
  const read = told.read();
  await turn();
  told.give(event);
  return read;
}

test("events are text with or without a name, or lines of JSON; the end comes once", async () => {
  const told = new Told();
  assert.deepEqual(
    [told.response.headers.get("content-type"), told.response.headers.get("cache-control")],
    ["text/event-stream; charset=utf-8", "no-cache, no-transform"],
  );
  assert.equal(told.response.headers.get("x-accel-buffering"), "no");
  assert.equal(await exchanged(told, { data: { a: 1 } }), 'data: {"a":1}\n\n');
  assert.equal(await exchanged(told, { event: "x", data: "[DONE]" }), "event: x\ndata: [DONE]\n\n");
  assert.deepEqual(told.events, []);
  assert.deepEqual([await exchanged(told, null), told.events], [null, ["ended"]]);
  const first = Promise.resolve({ done: false, value: { data: { b: 2 } } } as const);
  const lines = new Told({ isLines: true, first });
  assert.equal(lines.response.headers.get("content-type"), "application/x-ndjson");
  assert.equal(await lines.read(), '{"b":2}\n', "what had been asked for already");
  assert.equal(await exchanged(lines, { event: "x", data: [3] }), "[3]\n");
});

test("a source that fails: the client is told what the route says, and the stream ends", async () => {
  for (const [failed, expected] of [
    [(error: unknown) => ({ data: (error as Error).message }), ["data: broken\n\n", null]],
    [() => null, [null]],
    [undefined, [null]],
  ] as const) {
    const told = new Told(failed === undefined ? {} : { failed });
    const read = told.read();
    await turn();
    told.fail();
    assert.equal(await read, expected[0]);
    if (expected.length > 1) assert.equal(await told.read(), null);
    assert.deepEqual(told.events, ["ended"]);
  }
});

test("a reader that leaves ends the source, whatever it says then", async () => {
  const told = new Told({ failed: () => ({ data: "too late" }) });
  const read = told.read();
  await turn();
  await told.leave();
  assert.deepEqual([await read, told.events], [null, ["ended", "left", "returned"]]);
  told.fail();
  await turn();
  const other = new Told();
  const last = other.read();
  await turn();
  await other.leave();
  other.give({ data: "too late" });
  assert.deepEqual([await last, other.events], [null, ["ended", "left", "returned"]]);
});

test("silence is broken for who waits, not in lines; who takes nothing for too long is dropped", async (t) => {
  let nowMs = 100;
  let look = (): void => undefined;
  const periods: number[] = [];
  t.mock.method(performance, "now", () => nowMs);
  t.mock.method(globalThis, "setInterval", (callback: () => void, ms: number) => {
    look = callback;
    periods.push(ms);
    return { unref: () => undefined };
  });
  const told = new Told();
  assert.deepEqual(periods, [1000]);
  let read = told.read();
  await turn();
  nowMs += 3999;
  look();
  nowMs += 1;
  look();
  assert.equal(await read, ": waiting\n\n");
  read = told.read();
  await turn();
  nowMs += 3999;
  look(); // something was sent meanwhile
  told.give({ data: 1 });
  assert.equal(await read, "data: 1\n\n");
  await turn();
  nowMs += 7999;
  look();
  assert.deepEqual(told.events, []);
  nowMs += 1;
  look();
  await turn();
  assert.deepEqual(told.events, [
    "stream closed: the client stopped reading",
    "destroyed",
    "ended",
    "left",
    "returned",
  ]);

  const unread = new Told();
  nowMs += 8000;
  look();
  assert.equal(unread.events[1], "destroyed", "who never began to read takes nothing");

  const lines = new Told({ isLines: true });
  const line = lines.read();
  await turn();
  nowMs += 100_000;
  look();
  lines.give({ data: 2 });
  assert.equal(await line, "2\n", "nothing but lines");
});

test("a stream begins with its first event, or after a moment; what fails before has its status, what fails later is told in it", async (t) => {
  const logged: string[] = [];
  const note = (_: unknown, text: string) => void logged.push(text);
  const known: Record<string, unknown> = {
    server: { config: { streamKeepAliveSeconds: 4, slowReaderSeconds: 8 } },
    log: { info: note, error: note },
    facts: {},
  };
  const c = { get: (key: string) => known[key] } as unknown as Context<AppEnv>;
  const call = { hasLeft: false, leave: () => undefined, end: () => void logged.push("call ended") };
  const timers: [callback: () => void, ms: number][] = [];
  const cleared: unknown[] = [];
  t.mock.method(globalThis, "setTimeout", (callback: () => void, ms: number) => timers.push([callback, ms]));
  t.mock.method(globalThis, "clearTimeout", (timer: unknown) => void cleared.push(timer));
  const stream = (events: AsyncGenerator<ServerEvent>, form = {}) =>
    streamCall(c, call as unknown as Call, events, form);

  async function* quick(): AsyncGenerator<ServerEvent> {
    yield { data: 1 };
  }
  assert.equal(await (await stream(quick())).text(), "data: 1\n\n");
  assert.deepEqual([timers.map(([, ms]) => ms), cleared], [[4000], [1]]);
  assert.deepEqual(logged.splice(0), ["call ended", "stream ended"]);

  let fail!: (error: Error) => void;
  const never = new Promise<never>((_, reject) => {
    fail = reject;
  });
  async function* slow(): AsyncGenerator<ServerEvent> {
    yield await never;
  }
  const beginning = stream(slow(), {
    isLines: true,
    failure: ({ status }: { status: number }) => ({ data: { status } }),
  });
  await turn();
  timers[1]![0]();
  const response = await beginning;
  assert.equal(response.status, 200, "it began without an event");
  const text = response.text();
  fail(new Error("odd"));
  assert.equal(await text, '{"status":500}\n');
  assert.deepEqual(
    [logged, cleared],
    [
      ["a stream failed", "call ended", "stream ended"],
      [1, 2],
    ],
  );

  async function* broken(): AsyncGenerator<ServerEvent> {
    yield await Promise.reject(new Error("at once"));
  }
  await assert.rejects(stream(broken()), /at once/);
  assert.deepEqual(cleared, [1, 2, 3]);
});
