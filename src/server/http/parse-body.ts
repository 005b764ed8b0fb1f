// The bytes of a body as its schema has them: bounded in shape, valid UTF-8, valid JSON, valid under the schema. Anything else is the
// client's error, told with the field at fault.

import type { z } from "zod";
import type { ErrorCode } from "../../core/errors.js";
import { MOST_BIASES } from "../schemas/sampling.js";
import { ApiError } from "./api-error.js";
import { type Excess, JsonShape } from "./json-shape.js";
import { type Leftover, parseKnown } from "./known-fields.js";
import { MAX_CHARS_PER_TOKEN, tooLongAtLeast } from "./too-long.js";

/** Rendering more takes a second and longer. */
export const MOST_MESSAGES = 8192;
export const JSON_LIMITS = { depth: 200, containers: 100_000, values: 500_000 };
/** Of fields of the outermost object. */
const MOST_ITEMS = { messages: MOST_MESSAGES, logit_bias: MOST_BIASES };
/** An escape such as \u0041. */
const MAX_BYTES_PER_CHAR = 6;
const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Looks at the bytes of a body as they come; what it returns is why no more of it is wanted. `textsFit`: tokens of the largest context that its
 * texts must fit into; null: they need not.
 */
export function bodyShape(textsFit: number | null): (piece: Uint8Array) => ApiError | null {
  const string = textsFit === null ? Number.POSITIVE_INFINITY : textsFit * MAX_CHARS_PER_TOKEN * MAX_BYTES_PER_CHAR;
  const shape = new JsonShape({ ...JSON_LIMITS, string, items: MOST_ITEMS });
  return (piece) => {
    const excess = shape.exceeds(piece);
    return excess === null ? null : tooMuch(excess, textsFit!);
  };
}

/** `isStrict`: fields that nobody here knows are errors. The shape was looked at. */
export function parseBody<S extends z.ZodType>(schema: S, bytes: Uint8Array, isStrict: boolean): Leftover<z.output<S>> {
  let value: unknown;
  try {
    value = JSON.parse(utf8.decode(bytes));
  } catch (error) {
    const reason = error instanceof SyntaxError ? error.message : "it is not valid UTF-8";
    throw new ApiError("invalid_json", `The body is not JSON: ${reason}`);
  }
  const parsed = parseKnown(schema, value, { isStrict });
  if ("issue" in parsed) throw invalidField(parsed.issue, parsed.unknown);
  return parsed;
}

function tooMuch({ limit, field: param }: Excess, maxContext: number): ApiError {
  if (limit === "string") return tooLongAtLeast(maxContext * MAX_CHARS_PER_TOKEN, maxContext, param);
  if (limit === "items") {
    const most = MOST_ITEMS[param as keyof typeof MOST_ITEMS];
    return new ApiError("invalid_value", `${param} has more than ${most} items. Send fewer.`, { param });
  }
  const message =
    limit === "depth"
      ? `The body is nested deeper than ${JSON_LIMITS.depth} levels.`
      : limit === "containers"
        ? `The body has more than ${JSON_LIMITS.containers} objects and lists. Send fewer.`
        : `The body has more than ${JSON_LIMITS.values} values. Send fewer.`;
  return new ApiError("invalid_json", message, { param });
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
