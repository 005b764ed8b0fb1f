// A JSON answer that is made piece by piece: 2,048 vectors are 60 MB of digits, and writing them at once would hold up the thread for seconds.

import type { Context } from "hono";
import type { AppEnv } from "../context.js";

/** Numbers that are written in one turn of the event loop. */
const NUMBERS_A_TURN = 16_384;

/** `head` with the vectors as its field `name`, each made into JSON by `write`. */
export function replyWithVectors(
  c: Context<AppEnv>,
  head: Readonly<Record<string, unknown>>,
  name: string,
  vectors: readonly Float32Array[],
  write: (vector: Float32Array, index: number) => string,
): Response {
  const utf8 = new TextEncoder();
  let index = 0;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      await new Promise(setImmediate);
      let piece = index === 0 ? `${JSON.stringify(head).slice(0, -1)},${JSON.stringify(name)}:[` : "";
      for (let numbers = 0; index < vectors.length && numbers < NUMBERS_A_TURN; index++) {
        numbers += vectors[index]!.length;
        piece += `${index > 0 ? "," : ""}${write(vectors[index]!, index)}`;
      }
      if (index < vectors.length) return controller.enqueue(utf8.encode(piece));
      controller.enqueue(utf8.encode(`${piece}]}`));
      controller.close();
    },
  });
  return c.body(body, 200, { "content-type": "application/json" });
}

export function numbersOf(vector: Float32Array): string {
  return JSON.stringify(Array.from(vector));
}
