// Bodies as other servers' clients send them: null for what is left out, and fields that this server does not know. Null counts as left
// out. Unknown fields are left out too, and named, so that somebody can be told; what is wrong in any other way stays wrong.

import type { z } from "zod";

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

export interface Leftover<T> {
  readonly data: T;
  /** Paths of the fields that were left out because nobody here knows them, indexes of lists as `*`. */
  readonly unknown: readonly string[];
}

export interface Refusal {
  readonly issue: Issue;
  readonly unknown: readonly string[];
}

/** Each round takes fields out of every level it can see; a level below an alternative is seen in the next. */
const MAX_ROUNDS = 4;

/** `value` is the caller's own: fields are taken out of it. */
export function parseKnown<S extends z.ZodType>(
  schema: S,
  value: unknown,
  { isStrict }: { readonly isStrict: boolean },
): Leftover<z.output<S>> | Refusal {
  const unknown = new Set<string>();
  for (let round = 0; ; round++) {
    const parsed = schema.safeParse(value);
    if (parsed.success) return { data: parsed.data, unknown: [...unknown] };
    for (const issue of parsed.error.issues) {
      const needless = round < MAX_ROUNDS ? needlessIn(issue, value, []) : null;
      if (needless === null) return { issue, unknown: [...unknown, ...unknownIn(parsed.error.issues)] };
      for (const path of needless) {
        const isNull = at(value, path) === null;
        if (isStrict && !isNull) return { issue, unknown: [] };
        if (!isNull) unknown.add(path.map((key) => (typeof key === "number" ? "*" : String(key))).join("."));
        remove(value, path);
      }
    }
  }
}

/** The fields without which an issue would be gone; null: it is no such issue. */
function needlessIn(issue: Issue, value: unknown, base: Path): Path[] | null {
  const path = [...base, ...issue.path];
  if (issue.code === "unrecognized_keys") return issue.keys.map((key) => [...path, key]);
  if (typeof path.at(-1) === "string" && at(value, path) === null) return [path];
  if (issue.code !== "invalid_union") return null;
  let best: Path[] | null = null;
  for (const errors of issue.errors) {
    const all = errors.map((error) => needlessIn(error, value, path));
    if (all.length === 0 || all.includes(null)) continue;
    const fields = all.flatMap((one) => one!);
    if (best === null || fields.length < best.length) best = fields;
  }
  return best;
}

function unknownIn(issues: readonly Issue[]): string[] {
  return issues.flatMap((issue) => (issue.code === "unrecognized_keys" && issue.path.length === 0 ? issue.keys : []));
}

function at(value: unknown, path: Path): unknown {
  return path.reduce((inner, key) => (inner as Record<PropertyKey, unknown> | undefined)?.[key], value);
}

function remove(value: unknown, path: Path): void {
  const parent = at(value, path.slice(0, -1)) as Record<PropertyKey, unknown> | undefined;
  if (parent !== undefined) delete parent[path.at(-1)!];
}
