// One line of a batch's input, as OpenAI writes them: {"custom_id", "method": "POST", "url", "body"}; and one of its output.

import { randomUUID } from "node:crypto";

/** Routes that batches may ask. */
export const BATCH_URLS = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/embeddings",
  "/v1/responses",
  "/v1/messages",
  "/v1/rerank",
  "/v1/score",
] as const;

export interface BatchLine {
  readonly customId: string;
  readonly url: string;
  readonly body: Record<string, unknown>;
}

/** What is wrong with a line. */
export interface LineFault {
  readonly code: string;
  readonly message: string;
  readonly param: string | null;
}

/** `url`: of the batch, where all lines have one; null: each has its own. */
export function readLine(text: string, url: string | null): BatchLine | LineFault {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return fault("invalid_json_line", "The line is not JSON.", null);
  }
  if (!isRecord(value)) return fault("invalid_json_line", "The line is not an object.", null);
  const { custom_id: customId, method, url: own, body } = value;
  if (typeof customId !== "string" || customId === "" || customId.length > 512)
    return fault("missing_required_parameter", "custom_id must be a text of 1 to 512 characters.", "custom_id");
  if (method !== undefined && method !== "POST") return fault("invalid_method", "method must be POST.", "method");
  if (!BATCH_URLS.some((known) => known === own))
    return fault("invalid_url", `url must be one of ${BATCH_URLS.join(", ")}.`, "url");
  if (url !== null && own !== url) return fault("mismatched_url", `url must be the batch's endpoint, ${url}.`, "url");
  if (!isRecord(body)) return fault("missing_required_parameter", "body must be an object.", "body");
  if (body.stream === true) return fault("stream_unsupported", "stream is not allowed in a batch.", "body.stream");
  return { customId, url: own as string, body };
}

export function isFault(line: BatchLine | LineFault): line is LineFault {
  return "code" in line;
}

/** What came of a line. */
export interface LineResult {
  readonly customId: string;
  readonly status: number;
  readonly requestId: string;
  readonly body: unknown;
}

export function resultText({ customId, status, requestId, body }: LineResult): string {
  return `${JSON.stringify({
    id: `batch_req_${randomUUID().replaceAll("-", "")}`,
    custom_id: customId,
    response: { status_code: status, request_id: requestId, body },
    error: null,
  })}\n`;
}

/** The custom_id of a line of output; null: it is no such line. */
export function answeredId(text: string): string | null {
  try {
    const { custom_id: customId } = JSON.parse(text) as { custom_id?: unknown };
    return typeof customId === "string" ? customId : null;
  } catch {
    return null;
  }
}

function fault(code: string, message: string, param: string | null): LineFault {
  return { code, message, param };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
