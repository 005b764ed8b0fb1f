// Reads a JSON body: bounded in size and shape, valid UTF-8, valid JSON, valid under a schema. Anything else is the client's error, told
// with the field at fault.

import type { Context } from "hono";
import type { z } from "zod";
import { ApiError } from "./api-error.js";
import { readBounded } from "./bounded-body.js";
import type { AppEnv } from "./context.js";
import { type Excess, JsonShape } from "./json-shape.js";
import { MAX_CHARS_PER_TOKEN } from "./prompt.js";

const JSON_LIMITS = { depth: 200, containers: 100_000 };
/** An escape such as \u0041. */
const MAX_BYTES_PER_CHAR = 6;
const utf8 = new TextDecoder("utf-8", { fatal: true });

/** `takesLongTexts`: they need not fit into a context, for they are cut to it on request, or only counted. */
export async function readJson<S extends z.ZodType>(
  c: Context<AppEnv>,
  schema: S,
  { takesLongTexts = false } = {},
): Promise<z.output<S>> {
  requireJson(c.req.header("content-type"), c.req.header("content-encoding"));
  const { maxContext } = c.get("server").house;
  const string = takesLongTexts ? Number.POSITIVE_INFINITY : maxContext * MAX_CHARS_PER_TOKEN * MAX_BYTES_PER_CHAR;
  const shape = new JsonShape({ ...JSON_LIMITS, string });
  const bytes = await readBounded(c.env.incoming, c.get("server").config.maxBodyMb * 2 ** 20, (piece) => {
    const excess = shape.exceeds(piece);
    return excess === null ? null : tooMuch(excess, string, maxContext);
  });
  let value: unknown;
  try {
    value = JSON.parse(utf8.decode(bytes));
  } catch (error) {
    const reason = error instanceof SyntaxError ? error.message : "it is not valid UTF-8";
    throw new ApiError("invalid_json", `The body is not JSON: ${reason}`);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) {
    // From here on the request is the model's it names: its engine, its template, its tools.
    const { model } = parsed.data as { model?: string };
    c.set("server", await c.get("server").house.contextFor(model, c));
    return parsed.data;
  }
  throw invalidField(parsed.error.issues[0]!);
}

function tooMuch({ limit, field: param }: Excess, maxBytes: number, maxContext: number): ApiError {
  const where = param === null ? "the body" : `"${param}"`;
  if (limit === "string") {
    const message = `A text in ${where} has more than ${maxBytes} bytes, more than a context of ${maxContext} tokens can hold. Shorten it.`;
    return new ApiError("prompt_too_long", message, { param });
  }
  const message =
    limit === "depth"
      ? `The body is nested deeper than ${JSON_LIMITS.depth} levels.`
      : `The body has more than ${JSON_LIMITS.containers} objects and lists. Send fewer.`;
  return new ApiError("invalid_json", message, { param });
}

/** Any other type can be sent by any web page without asking first. */
function requireJson(type: string | undefined, encoding: string | undefined): void {
  const show = (value: string | undefined): string => (value === undefined ? "none" : JSON.stringify(value));
  if (type === undefined || !/^application\/([\w.+-]+\+)?json\s*(;|$)/i.test(type)) {
    const message = `The content type is ${show(type)}; send the body as application/json.`;
    throw new ApiError("unsupported_media_type", message, { headers: { accept: "application/json" } });
  }
  if (encoding === undefined || encoding.toLowerCase() === "identity") return;
  const message = `The content encoding is ${show(encoding)}; send the body as it is, uncompressed.`;
  throw new ApiError("unsupported_media_type", message, { headers: { "accept-encoding": "identity" } });
}

/** Of an alternative that nearly held, what is wrong inside it: its size alone, else the issue that is deepest in the value. */
function deepest(issue: z.core.$ZodIssue): z.core.$ZodIssue {
  if (issue.code !== "invalid_union") return issue;
  const isSize = ({ code, path }: z.core.$ZodIssue): boolean =>
    path.length === 0 && (code === "too_big" || code === "too_small");
  const size = issue.errors.find((errors) => errors.length === 1 && isSize(errors[0]!))?.[0];
  if (size !== undefined) return { ...size, path: issue.path };
  let best: z.core.$ZodIssue = issue;
  for (const [first] of issue.errors) {
    if (first === undefined) continue;
    const inner = deepest({ ...first, path: [...issue.path, ...first.path] });
    const isNamed = inner.code === "unrecognized_keys";
    if (inner.path.length + (isNamed ? 1 : 0) > best.path.length) best = inner;
  }
  return best;
}

function invalidField(outer: z.core.$ZodIssue): ApiError {
  const issue = deepest(outer);
  const path = issue.path.map(String);
  const unknown = issue.code === "unrecognized_keys" ? issue.keys[0] : undefined;
  if (unknown !== undefined) path.push(unknown);
  const param = path.join(".") || null;
  const message =
    unknown === undefined
      ? `${param ?? "The body"}: ${issue.message}`
      : `${param} is not a field of this request. Leave it out, or check its spelling.`;
  return new ApiError(unknown === undefined ? "invalid_value" : "unknown_field", message, { param });
}
