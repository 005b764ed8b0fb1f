// What somebody may have meant by a name that is none.

/** "Did you mean a or b?", or every name where none is close. Case, dashes and underscores do not count. */
export function suggest(name: string, known: readonly string[]): string {
  const close = closeTo(name, known);
  return close.length > 0 ? `Did you mean ${close.slice(0, 3).join(" or ")}?` : `Known: ${known.join(", ")}.`;
}

/** The known names that are close to it, the closest first. */
export function closeTo(name: string, known: readonly string[]): string[] {
  const given = plain(name);
  const far = Math.min(3, Math.ceil(given.length / 2));
  const distanceOf = (other: string): number => (plain(other).startsWith(given) ? 0 : distance(given, plain(other)));
  return known.filter((other) => distanceOf(other) <= far).sort((a, b) => distanceOf(a) - distanceOf(b));
}

function plain(name: string): string {
  return name.replaceAll(/[-_]/g, "").toLowerCase();
}

/** Letters to put in, take out or change (Levenshtein). */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length]!;
}
