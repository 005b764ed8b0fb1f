// Reads a JSON body: bounded in size, valid UTF-8, valid JSON, valid under a schema. Anything else is the client's error, told
// with the field at fault.

import type { Context } from "hono";
import type { z } from "zod";
import { ApiError } from "./api-error.js";
import type { AppEnv } from "./context.js";

const utf8 = new TextDecoder("utf-8", { fatal: true });

export async function readJson<S extends z.ZodType>(c: Context<AppEnv>, schema: S): Promise<z.output<S>> {
  const bytes = await readBounded(c, c.get("server").config.maxBodyMb * 2 ** 20);
  let value: unknown;
  try {
    value = JSON.parse(utf8.decode(bytes));
  } catch (error) {
    const reason = error instanceof SyntaxError ? error.message : "it is not valid UTF-8";
    throw new ApiError(400, "invalid_json", `The body is not JSON: ${reason}`);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw invalidField(parsed.error.issues[0]!);
}

async function readBounded(c: Context<AppEnv>, limit: number): Promise<Uint8Array> {
  const tooLarge = () =>
    new ApiError(413, "body_too_large", `The body is larger than ${limit} bytes. Send less, or raise maxBodyMb.`, {
      headers: { connection: "close" },
    });
  if (Number(c.req.header("content-length") ?? 0) > limit) throw tooLarge();
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = c.req.raw.body?.getReader();
  if (reader === undefined) return new Uint8Array(0);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > limit) {
      void reader.cancel();
      throw tooLarge();
    }
    chunks.push(value);
  }
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
}

function invalidField(issue: z.core.$ZodIssue): ApiError {
  const path = issue.path.map(String);
  const unknown = issue.code === "unrecognized_keys" ? issue.keys[0] : undefined;
  if (unknown !== undefined) path.push(unknown);
  const param = path.join(".") || null;
  const message =
    unknown === undefined
      ? `${param ?? "The body"}: ${issue.message}`
      : `${param} is not a field of this request. Leave it out, or check its spelling.`;
  return new ApiError(400, unknown === undefined ? "invalid_value" : "unknown_field", message, { param });
}
