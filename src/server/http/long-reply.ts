// A JSON answer that is made piece by piece: 2,048 vectors are 60 MB of digits, a long text has a million tokens, and writing them at once
// would hold up the thread.

import type { Context } from "hono";
import type { AppEnv } from "../context.js";

/** Numbers that are written in one turn of the event loop. */
export const NUMBERS_A_TURN = 16_384;

/** A field that is a list, made of parts: what is written of each stands between commas. */
export interface LongField<Part extends ArrayLike<number>> {
  readonly name: string;
  readonly parts: readonly Part[];
  write(part: Part, index: number): string;
}

/** `head` with further fields behind its own. */
export function replyInPieces<Part extends ArrayLike<number>>(
  c: Context<AppEnv>,
  head: Readonly<Record<string, unknown>>,
  fields: readonly LongField<Part>[],
): Response {
  const utf8 = new TextEncoder();
  const pieces = piecesOf(head, fields);
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      await new Promise(setImmediate);
      const next = pieces.next();
      if (next.done === true) controller.close();
      else controller.enqueue(utf8.encode(next.value));
    },
  });
  return c.body(body, 200, { "content-type": "application/json" });
}

function* piecesOf<Part extends ArrayLike<number>>(
  head: Readonly<Record<string, unknown>>,
  fields: readonly LongField<Part>[],
): Generator<string> {
  let piece = JSON.stringify(head).slice(0, -1);
  let size = 0;
  for (const { name, parts, write } of fields) {
    piece += `,${JSON.stringify(name)}:[`;
    for (let i = 0; i < parts.length; i++) {
      piece += `${i > 0 ? "," : ""}${write(parts[i]!, i)}`;
      size += parts[i]!.length;
      if (size < NUMBERS_A_TURN) continue;
      yield piece;
      [piece, size] = ["", 0];
    }
    piece += "]";
  }
  yield `${piece}}`;
}

export function numbersOf(vector: Float32Array): string {
  return JSON.stringify(Array.from(vector));
}
