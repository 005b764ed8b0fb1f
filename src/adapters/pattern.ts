// Keys of rank_pattern and alpha_pattern: the end of a module's path, or an expression that matches it; target_modules: an expression that
// matches all of it. Expressions come from a file: those
// that could take for ever to match (repeated groups, references back, many repetitions) are not taken.

const LONGEST = 200;
const MOST_REPEATS = 4;

/** As PEFT matches it, `(.*\.)?(key)$` from the beginning; null: it is not taken. */
export function patternOf(key: string): RegExp | null {
  const plain = key.startsWith("^") ? key.slice(1) : key;
  return compiled(plain, key.startsWith("^") ? "" : "(?:.*\\.)?");
}

/** An expression for whole paths; null: it is not taken. */
export function wholePatternOf(expression: string): RegExp | null {
  return compiled(expression, "");
}

function compiled(plain: string, before: string): RegExp | null {
  const repeats = plain.match(/[*+{]/g) ?? [];
  const isSlow = /\)[*+{?]|\(\?[^:]|\\[1-9k]/.test(plain) || repeats.length > MOST_REPEATS;
  if (plain === "" || plain.length > LONGEST || isSlow) return null;
  try {
    return new RegExp(`^${before}(?:${plain})$`);
  } catch {
    return null;
  }
}
