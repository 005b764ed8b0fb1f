// The names a macro's body speaks of, the bodies within it included: whether it takes caller, kwargs and varargs depends on them.

import type { Node } from "./nodes.js";

export function usedNames(body: readonly Node[]): ReadonlySet<string> {
  const names = new Set<string>();
  const visit = (part: unknown): void => {
    if (Array.isArray(part)) for (const item of part) visit(item);
    else if (typeof part === "object" && part !== null) {
      const { kind, name } = part as { kind?: unknown; name?: unknown };
      if (kind === "name" && typeof name === "string") names.add(name);
      for (const value of Object.values(part)) visit(value);
    }
  };
  visit(body);
  return names;
}
