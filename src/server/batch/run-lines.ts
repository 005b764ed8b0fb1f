// Runs the lines of a batch through the server's own routes, some at a time, and writes down what came of each. What is full or away for a
// moment is asked again; who is stopped leaves its unfinished lines to the next run.

import { createReadStream } from "node:fs";
import { open, stat, truncate } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { Gate } from "../http/gate.js";
import { answeredId, type BatchLine, type LineResult } from "./batch-line.js";

/** Asks one line of the server. */
export type AskLine = (line: BatchLine, signal: AbortSignal) => Promise<LineResult>;

export interface RunOptions {
  readonly ask: AskLine;
  /** Lines that are asked at once, of all batches together: they come in turns. */
  readonly gate: Gate;
  readonly signal: AbortSignal;
  /** Kept before the line counts as done. */
  take(result: LineResult): Promise<void>;
}

/** Of a line that finds the server full, or its model away. */
const MOST_TRIES = 20;
const MOST_DELAY_MS = 30_000;
const FULL = [429, 503];
const NEWLINE = 0x0a;

/** Resolves when every line is done; rejects when it is stopped, or results cannot be kept. */
export async function runLines(
  lines: AsyncIterable<BatchLine>,
  { ask, gate, signal, take }: RunOptions,
): Promise<void> {
  const inside = new Set<Promise<void>>();
  const ended = new AbortController();
  const either = AbortSignal.any([signal, ended.signal]);
  let failure: unknown;
  const run = async (line: BatchLine, leave: () => void): Promise<void> => {
    try {
      await take(await answerOf(line, ask, either));
    } catch (error) {
      failure ??= error;
      ended.abort();
    } finally {
      leave();
    }
  };
  try {
    for await (const line of lines) {
      const leave = await gate.enter(0, either);
      const running = run(line, leave);
      inside.add(running);
      void running.finally(() => inside.delete(running));
    }
  } catch (error) {
    failure ??= error;
    ended.abort();
  }
  await Promise.all(inside);
  signal.throwIfAborted();
  if (failure !== undefined) throw failure;
}

async function answerOf(line: BatchLine, ask: AskLine, signal: AbortSignal): Promise<LineResult> {
  for (let tries = 1; ; tries++) {
    const result = await ask(line, signal);
    signal.throwIfAborted(); // what it got then is of its end, not of the line
    if (!FULL.includes(result.status) || tries >= MOST_TRIES) return result;
    await sleep(Math.min(250 * 2 ** tries, MOST_DELAY_MS), undefined, { signal });
  }
}

/** The lines of a file with their numbers from 1 on, empty ones left out. One of more than `maxBytes` is null, and the last. */
export async function* linesOf(
  path: string,
  maxBytes = Number.POSITIVE_INFINITY,
): AsyncGenerator<{ readonly number: number; readonly bytes: Buffer | null }> {
  let number = 1;
  let held: Buffer[] = [];
  let size = 0;
  const whole = function* () {
    const bytes = Buffer.concat(held);
    held = [];
    size = 0;
    if (bytes.toString("latin1").trim() !== "") yield { number, bytes };
    number++;
  };
  for await (const piece of createReadStream(path) as AsyncIterable<Buffer>) {
    for (let from = 0; from < piece.length; ) {
      const at = piece.indexOf(NEWLINE, from);
      const part = piece.subarray(from, at < 0 ? piece.length : at);
      size += part.length;
      if (size > maxBytes) return yield { number, bytes: null };
      held.push(part);
      if (at >= 0) yield* whole();
      from = at < 0 ? piece.length : at + 1;
    }
  }
  yield* whole();
}

/** Cuts a line off that was not written to its end, and says which are there. */
export async function answeredIn(path: string): Promise<Set<string>> {
  const answered = new Set<string>();
  const size = (await stat(path).catch(() => null))?.size ?? 0;
  if (size === 0) return answered;
  await cutTornLine(path, size);
  for await (const { bytes } of linesOf(path)) {
    const id = answeredId(String(bytes));
    if (id !== null) answered.add(id);
  }
  return answered;
}

async function cutTornLine(path: string, size: number): Promise<void> {
  const handle = await open(path, "r");
  const block = Buffer.alloc(64 * 1024);
  try {
    for (let end = size; end > 0; ) {
      const from = Math.max(0, end - block.length);
      const { bytesRead } = await handle.read(block, 0, end - from, from);
      const at = block.subarray(0, bytesRead).lastIndexOf(10);
      if (at < 0 && from > 0) {
        end = from;
        continue;
      }
      const whole = from + at + 1;
      if (whole < size) await truncate(path, whole);
      return;
    }
  } finally {
    await handle.close();
  }
}
