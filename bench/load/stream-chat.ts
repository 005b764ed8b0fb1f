// One streamed chat as a client sees it: its status, when its first token came, its text, and whether it came to its end.

import { request } from "node:http";

/** The part of `pagoda_trace` that says when, in milliseconds from its arrival at the engine. */
export interface Trace {
  readonly acceptedMs: number;
  readonly queuedMs: number;
  readonly timeToFirstTokenMs: number;
}

export interface StreamReply {
  /** 0: the connection ended before there was one. */
  readonly status: number;
  readonly text: string;
  readonly isWhole: boolean;
  /** From sending the request to its first text; NaN when there was none. */
  readonly firstTokenMs: number;
  /** Where the engine spent it; null when the answer did not come to its end. */
  readonly trace: Trace | null;
  /** Bytes of the answer, for errors. */
  readonly raw: string;
}

export interface StreamOptions {
  /** It hangs up once so many bytes have come; 0: before any. */
  readonly leaveAfter?: number | undefined;
  /** The client's own address; left out: the system's choice. */
  readonly address?: string | undefined;
}

/** An address of this machine for a client of its own; servers tell clients without keys apart by it. Linux has a whole network of them. */
export function ownAddress(group: number, index: number): string | undefined {
  return process.platform === "linux" ? `127.${group}.0.${1 + index}` : undefined;
}

/** Each on a connection of its own. */
export function streamChat(url: string, body: unknown, options: StreamOptions = {}): Promise<StreamReply> {
  const { leaveAfter = Number.POSITIVE_INFINITY, address } = options;
  return new Promise((resolve) => {
    const startMs = performance.now();
    const headers = { "content-type": "application/json", "x-pagoda-trace": "1" };
    let [status, raw, firstTokenMs] = [0, "", Number.NaN];
    const end = (): void =>
      resolve({ status, raw, firstTokenMs, ...contentOf(raw), isWhole: raw.endsWith("data: [DONE]\n\n") });
    const init = { method: "POST", agent: false, headers, localAddress: address } as const;
    const call = request(`${url}/v1/chat/completions`, init, (response) => {
      status = response.statusCode!;
      response.setEncoding("utf8");
      if (leaveAfter === 0) call.destroy();
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

/** Of all chunks that arrived whole. */
function contentOf(raw: string): Pick<StreamReply, "text" | "trace"> {
  let text = "";
  let trace: Trace | null = null;
  for (const event of raw.split("\n\n").slice(0, -1)) {
    if (!event.startsWith("data: {")) continue;
    const { choices, pagoda_trace } = JSON.parse(event.slice(6));
    text += choices?.[0]?.delta.content ?? "";
    trace ??= pagoda_trace ?? null;
  }
  return { text, trace };
}
