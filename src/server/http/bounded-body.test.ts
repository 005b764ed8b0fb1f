import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { readBounded } from "./bounded-body.js";

function incoming(headers: Record<string, string> = {}): PassThrough & IncomingMessage {
  return Object.assign(new PassThrough(), { headers }) as PassThrough & IncomingMessage;
}

const LISTENED = ["data", "end", "error", "close"] as const;
/** How many of a body's events are still listened to by the reader. */
const listeners = (body: PassThrough): number[] => LISTENED.map((name) => body.listenerCount(name));

test("pieces are put together; each is looked at before it is kept", async () => {
  for (const pieces of [[], ["abc"], ["ab", "c"], ["ab", "c", "defg"]]) {
    const body = incoming({ "content-length": "7" });
    const before = listeners(body);
    const seen: string[] = [];
    const read = readBounded(body, 7, (piece) => {
      seen.push(Buffer.from(piece).toString());
      return null;
    });
    for (const piece of pieces) body.write(piece);
    body.end();
    assert.equal((await read).toString(), pieces.join(""));
    assert.deepEqual(seen, pieces);
    assert.deepEqual(listeners(body), before, "nothing is listened to any more");
  }
});

test("what is announced or turns out to be too large is refused, and what its reader refuses; the rest is dropped", async () => {
  const tooLarge = {
    code: "body_too_large",
    message: "The body is larger than 7 bytes. Send less, or raise maxBodyMb.",
  };
  await assert.rejects(
    readBounded(incoming({ "content-length": "8" }), 7, () => null),
    tooLarge,
  );
  const long = incoming();
  const read = readBounded(long, 7, () => null);
  long.write("1234567");
  long.write("8");
  await assert.rejects(read, tooLarge);
  assert.equal(long.listenerCount("data"), 0);
  long.end("9");
  await once(long, "end"); // nobody reads it, and yet it is gone

  const odd = incoming();
  const refused = readBounded(odd, 7, (piece) => (piece[0] === 0x62 ? new Error("a b") : null));
  odd.write("a");
  odd.write("b");
  await assert.rejects(refused, /^Error: a b$/);
});

test("a client that leaves before or meanwhile has aborted", async () => {
  const gone = incoming();
  gone.destroy();
  await assert.rejects(
    readBounded(gone, 7, () => null),
    { code: "aborted" },
  );
  const leaving = incoming();
  const read = readBounded(leaving, 7, () => null);
  leaving.destroy();
  await assert.rejects(read, { code: "aborted" });
  const broken = incoming();
  const failed = readBounded(broken, 7, () => null);
  broken.destroy(new Error("reset"));
  await assert.rejects(failed, { code: "aborted" });
});
