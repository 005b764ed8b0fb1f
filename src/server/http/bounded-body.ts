// The bytes of a request's body, within limits that are looked at as they arrive: what exceeds one is refused then and there, and the
// rest is neither kept nor looked at. Read from Node's own stream: a web stream on top of it costs more than the reading.

import type { IncomingMessage } from "node:http";
import { errorFor } from "../../core/errors.js";
import { ApiError } from "./api-error.js";

/** Sees each piece before it is kept; what it returns ends the reading. */
type Refuse = (piece: Uint8Array) => Error | null;

export function readBounded(from: IncomingMessage | Request, maxBytes: number, refuse: Refuse): Promise<Buffer> {
  return "on" in from ? readNode(from, maxBytes, refuse) : readWeb(from, maxBytes, refuse);
}

async function readWeb({ body, headers, bodyUsed }: Request, maxBytes: number, refuse: Refuse): Promise<Buffer> {
  if (bodyUsed) throw alreadyRead();
  if (Number(headers.get("content-length") ?? 0) > maxBytes) throw tooLarge(maxBytes);
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of body ?? []) {
    size += piece.length;
    const error = size > maxBytes ? tooLarge(maxBytes) : refuse(piece);
    if (error !== null) throw error;
    pieces.push(piece);
  }
  return Buffer.concat(pieces, size);
}

function readNode(incoming: IncomingMessage, maxBytes: number, refuse: Refuse): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = [];
    let size = 0;
    const stop = (): void => {
      incoming.off("data", onData).off("end", onEnd).off("error", onLeft).off("close", onLeft);
    };
    const fail = (error: Error): void => {
      stop();
      incoming.resume(); // what is left is dropped: a client may hear its answer only after it has sent all
      reject(error);
    };
    const onData = (piece: Buffer): void => {
      size += piece.length;
      const error = size > maxBytes ? tooLarge(maxBytes) : refuse(piece);
      if (error !== null) fail(error);
      else pieces.push(piece);
    };
    const onEnd = (): void => {
      stop();
      resolve(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, size));
    };
    const onLeft = (): void => fail(errorFor("aborted"));
    if (incoming.readableEnded) return reject(alreadyRead());
    if (incoming.destroyed) return reject(errorFor("aborted"));
    if (Number(incoming.headers["content-length"] ?? 0) > maxBytes) return reject(tooLarge(maxBytes));
    incoming.on("data", onData).on("end", onEnd).on("error", onLeft).on("close", onLeft);
  });
}

/** By a body parser in front. */
function alreadyRead(): ApiError {
  return new ApiError("invalid_json", "The body was read before it came here: mount Pagoda before body parsers.");
}

function tooLarge(maxBytes: number): ApiError {
  const message = `The body is larger than ${maxBytes} bytes. Send less, or raise maxBodyMb.`;
  return new ApiError("body_too_large", message);
}
