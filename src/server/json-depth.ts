// How deep a parsed JSON value is nested. The parser itself takes any depth; what walks the value later is recursive, and a stack is
// not endless. Level by level, and not by bytes: a long text is one value.

export function isDeeperThan(limit: number, value: unknown): boolean {
  let level = typeof value === "object" && value !== null ? [value] : [];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth >= limit) return true;
    const inner: object[] = [];
    for (const item of level) {
      for (const child of Array.isArray(item) ? item : Object.values(item))
        if (typeof child === "object" && child !== null) inner.push(child);
    }
    level = inner;
  }
  return false;
}
