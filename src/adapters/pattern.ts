// Keys of rank_pattern and alpha_pattern: the end of a module's path, or an expression that matches it. Expressions come from a file: those
// that could take for ever to match (repeated groups, references back, many repetitions) are not taken.

const LONGEST = 200;
const MOST_REPEATS = 4;

/** As PEFT matches it, `(.*\.)?(key)$` from the beginning; null: it is not taken. */
export function patternOf(key: string): RegExp | null {
  const plain = key.startsWith("^") ? key.slice(1) : key;
  const repeats = plain.match(/[*+{]/g) ?? [];
  const isSlow = /\)[*+{?]|\(\?[^:]|\\[1-9k]/.test(plain) || repeats.length > MOST_REPEATS;
  if (plain === "" || plain.length > LONGEST || isSlow) return null;
  try {
    return new RegExp(key.startsWith("^") ? `^(?:${plain})$` : `^(?:.*\\.)?(?:${plain})$`);
  } catch {
    return null;
  }
}
