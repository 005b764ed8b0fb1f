// One streamed chat as a client sees it: its status, when its first token came, its text, and whether it came to its end.

import { request } from "node:http";

export interface StreamReply {
  /** 0: the connection ended before there was one. */
  readonly status: number;
  readonly text: string;
  readonly isWhole: boolean;
  /** From sending the request to its first text; NaN when there was none. */
  readonly firstTokenMs: number;
  /** Bytes of the answer, for errors. */
  readonly raw: string;
}

/** Each on a connection of its own. Hangs up once `leaveAfter` bytes have come. */
export function streamChat(url: string, body: unknown, leaveAfter = Number.POSITIVE_INFINITY): Promise<StreamReply> {
  return new Promise((resolve) => {
    const startMs = performance.now();
    const headers = { "content-type": "application/json" };
    let [status, raw, firstTokenMs] = [0, "", Number.NaN];
    const end = (): void =>
      resolve({ status, raw, firstTokenMs, text: textOf(raw), isWhole: raw.endsWith("data: [DONE]\n\n") });
    const call = request(`${url}/v1/chat/completions`, { method: "POST", agent: false, headers }, (response) => {
      status = response.statusCode!;
      response.setEncoding("utf8");
      response.on("data", (piece: string) => {
        if (Number.isNaN(firstTokenMs) && /"content":"[^"]/.test(piece)) firstTokenMs = performance.now() - startMs;
        raw += piece;
        if (raw.length >= leaveAfter) call.destroy();
      });
      response.on("error", () => undefined); // our own doing, or told by isWhole
      response.on("close", end);
    });
    call.on("error", end);
    call.end(JSON.stringify(body));
  });
}

/** The content of all chunks that arrived whole. */
function textOf(raw: string): string {
  let text = "";
  for (const event of raw.split("\n\n").slice(0, -1))
    if (event.startsWith("data: {")) text += JSON.parse(event.slice(6)).choices?.[0]?.delta.content ?? "";
  return text;
}
