// Reads the JSON body of a request: bounded in size and shape, valid under its schema (parse-body.ts). What is long is parsed in a thread of its own:
// megabytes of JSON, right or wrong, would hold up everybody on the server's for tens of milliseconds each.

import type { Context } from "hono";
import type { z } from "zod";
import type { AppEnv } from "../context.js";
import { ApiError } from "./api-error.js";
import { clientOf } from "./auth.js";
import { readBounded } from "./bounded-body.js";
import type { Leftover } from "./known-fields.js";
import { bodyShape, parseBody } from "./parse-body.js";

/** Bytes that are parsed in a millisecond or two. */
const LONG_BODY = 65_536;

/** `loads`: the model that the body names, if need be. `takesLongTexts`: they need not fit into a context, for they are cut to it on request, or only counted. */
export async function readJson<S extends z.ZodType>(
  c: Context<AppEnv>,
  schema: S,
  { takesLongTexts = false, loads = true, takesImages = false } = {},
): Promise<z.output<S>> {
  requireJson(c);
  const { house, config } = c.get("server");
  const hasEyes = takesImages && house.mayHaveEyes;
  const maxBytes = (hasEyes ? Math.max(config.maxBodyMb, config.maxImageBodyMb) : config.maxBodyMb) * 2 ** 20;
  // A picture is a long string of its own. Texts are measured again when they are known to be texts.
  const refuse = bodyShape(takesLongTexts || hasEyes ? null : house.maxContext);
  const bytes = await readBounded(c.env.incoming ?? c.req.raw, maxBytes, refuse);
  const { data, unknown } = await parse(c, schema, bytes);
  noteIgnored(c, unknown);
  if (!loads) return data;
  // From here on the request is the model's it names: its engine, its template, its tools.
  const { model } = data as { model?: string };
  c.set("server", await house.contextFor(model, c));
  return data;
}

async function parse<S extends z.ZodType>(
  c: Context<AppEnv>,
  schema: S,
  bytes: Buffer,
): Promise<Leftover<z.output<S>>> {
  const { bodies, config } = c.get("server");
  if (bytes.length <= LONG_BODY) return parseBody(schema, bytes, config.strictFields);
  const asker = { signal: c.req.raw.signal, client: clientOf(c) };
  return (await bodies.parse(schema, bytes, config.strictFields, asker)) as Leftover<z.output<S>>;
}

/** Tells the operator of what clients ask for in vain, once each. */
export function noteIgnored(c: Context<AppEnv>, fields: readonly string[]): void {
  const unseen = c.get("server").seenFields.add(c.req.path, fields);
  if (unseen.length > 0) c.get("log").warn({ path: c.req.path, fields: unseen }, "ignored: not known here");
}

/**
 * Any other type can be sent by any web page without asking first; but a browser says where such a request comes from, and what says
 * nothing of it is no browser (`curl -d`, as in every example of Ollama's).
 */
function requireJson(c: Context<AppEnv>): void {
  const [type, encoding] = [c.req.header("content-type"), c.req.header("content-encoding")];
  const isOfPage = c.req.header("origin") !== undefined || c.req.header("sec-fetch-site") !== undefined;
  const show = (value: string | undefined): string => (value === undefined ? "none" : JSON.stringify(value));
  if (isOfPage && (type === undefined || !/^application\/([\w.+-]+\+)?json\s*(;|$)/i.test(type))) {
    const message = `The content type is ${show(type)}; send the body as application/json.`;
    throw new ApiError("unsupported_media_type", message, { headers: { accept: "application/json" } });
  }
  if (encoding === undefined || encoding.toLowerCase() === "identity") return;
  const message = `The content encoding is ${show(encoding)}; send the body as it is, uncompressed.`;
  throw new ApiError("unsupported_media_type", message, { headers: { "accept-encoding": "identity" } });
}
