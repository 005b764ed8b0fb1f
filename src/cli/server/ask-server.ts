// One request to a running server, for the commands that look at it or tell it something.

import type { OptionTable } from "../../config/options.js";
import { ConfigError } from "../../core/errors.js";
import { baseOf, ownKey } from "./openai-client.js";

export const ASK_OPTIONS = {
  url: { type: "string", default: "http://127.0.0.1:8000", help: "the server" },
  apiKey: {
    type: "string",
    default: null,
    defaultText: "the first of PAGODA_ADMIN_KEY or PAGODA_API_KEY, on this machine",
    help: "key to send",
  },
} as const satisfies OptionTable;

/** Which server the flags name, and the key for it. */
export function askedServer(
  values: Readonly<Record<string, unknown>>,
  ownKeys = process.env.PAGODA_ADMIN_KEY ?? process.env.PAGODA_API_KEY,
): { readonly base: string; readonly key: string | undefined } {
  const base = baseOf(String(values.url ?? ASK_OPTIONS.url.default));
  return { base, key: (values.apiKey as string | undefined) ?? ownKey(base, ownKeys) };
}

export async function askServer(
  values: Readonly<Record<string, unknown>>,
  method: "GET" | "POST",
  path: string,
  body?: unknown,
): Promise<unknown> {
  const { base, key } = askedServer(values);
  const headers = {
    "content-type": "application/json",
    ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
  };
  const fail = (reason: string): never => {
    throw new ConfigError("server_unreachable", { value: base, reason });
  };
  const reply = await fetch(base + path, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  }).catch(() => fail("nothing listens there"));
  const answer = (await reply.json().catch(() => fail("what listens there speaks no JSON"))) as {
    error?: string | { message: string };
  };
  if (reply.ok) return answer;
  const reason = typeof answer.error === "string" ? answer.error : (answer.error?.message ?? String(reply.status));
  throw new ConfigError("server_refused", { value: base, reason });
}
