// Reads a JSON body: bounded in size and shape, valid UTF-8, valid JSON, valid under a schema. Anything else is the client's error, told
// with the field at fault.

import type { Context } from "hono";
import type { z } from "zod";
import type { ErrorCode } from "../../core/errors.js";
import { MAX_CHARS_PER_TOKEN, tooLongAtLeast } from "../calls/prompt.js";
import type { AppEnv } from "../context.js";
import { ApiError } from "./api-error.js";
import { readBounded } from "./bounded-body.js";
import { type Excess, JsonShape } from "./json-shape.js";
import { parseKnown } from "./known-fields.js";

export const JSON_LIMITS = { depth: 200, containers: 100_000, values: 500_000 };
/** An escape such as \u0041. */
const MAX_BYTES_PER_CHAR = 6;
const utf8 = new TextDecoder("utf-8", { fatal: true });

/** `loads`: the model that the body names, if need be. `takesLongTexts`: they need not fit into a context, for they are cut to it on request, or only counted. */
export async function readJson<S extends z.ZodType>(
  c: Context<AppEnv>,
  schema: S,
  { takesLongTexts = false, loads = true, takesImages = false } = {},
): Promise<z.output<S>> {
  requireJson(c);
  const { maxContext } = c.get("server").house;
  // A picture is a long string of its own. Texts are measured again when they are known to be texts.
  const hasEyes = takesImages && c.get("server").house.mayHaveEyes;
  const string =
    takesLongTexts || hasEyes ? Number.POSITIVE_INFINITY : maxContext * MAX_CHARS_PER_TOKEN * MAX_BYTES_PER_CHAR;
  const { maxBodyMb, maxImageBodyMb } = c.get("server").config;
  const maxBytes = (hasEyes ? Math.max(maxBodyMb, maxImageBodyMb) : maxBodyMb) * 2 ** 20;
  const shape = new JsonShape({ ...JSON_LIMITS, string });
  const bytes = await readBounded(c.env.incoming ?? c.req.raw, maxBytes, (piece) => {
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
  const parsed = parseKnown(schema, value, { isStrict: c.get("server").config.strictFields });
  if ("issue" in parsed) throw invalidField(parsed.issue, parsed.unknown);
  noteIgnored(c, parsed.unknown);
  if (!loads) return parsed.data;
  // From here on the request is the model's it names: its engine, its template, its tools.
  const { model } = parsed.data as { model?: string };
  c.set("server", await c.get("server").house.contextFor(model, c));
  return parsed.data;
}

/** Tells the operator of what clients ask for in vain, once each. */
export function noteIgnored(c: Context<AppEnv>, fields: readonly string[]): void {
  const unseen = c.get("server").seenFields.add(c.req.path, fields);
  if (unseen.length > 0) c.get("log").warn({ path: c.req.path, fields: unseen }, "ignored: not known here");
}

function tooMuch({ limit, field: param }: Excess, maxBytes: number, maxContext: number): ApiError {
  if (limit === "string") return tooLongAtLeast(maxBytes / MAX_BYTES_PER_CHAR, maxContext, param);
  const message =
    limit === "depth"
      ? `The body is nested deeper than ${JSON_LIMITS.depth} levels.`
      : limit === "containers"
        ? `The body has more than ${JSON_LIMITS.containers} objects and lists. Send fewer.`
        : `The body has more than ${JSON_LIMITS.values} values. Send fewer.`;
  return new ApiError("invalid_json", message, { param });
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

const MAX_OTHERS = 5;

/** `others`: unknown fields beside it, one of which may be the missing one misspelt. */
function invalidField(outer: z.core.$ZodIssue, others: readonly string[]): ApiError {
  const issue = deepest(outer);
  const path = issue.path.map(String);
  const unknown = issue.code === "unrecognized_keys" ? issue.keys[0] : undefined;
  if (unknown !== undefined) path.push(unknown);
  const param = path.join(".") || null;
  const beside = others.slice(0, MAX_OTHERS).map((name) => name.slice(0, 80));
  const hint = beside.length === 0 ? "" : ` (not known here: ${beside.join(", ")})`;
  if (issue.code === "custom" && issue.params?.code !== undefined)
    return new ApiError(issue.params.code as ErrorCode, issue.message, { param });
  const message =
    unknown === undefined
      ? `${param ?? "The body"}: ${issue.message}${hint}`
      : `${param} is not a field of this request. Leave it out, or check its spelling.`;
  return new ApiError(unknown === undefined ? "invalid_value" : "unknown_field", message, { param });
}
