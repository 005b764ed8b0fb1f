// Single small changes to compiled code, each of which some test should notice: a comparison moved by one, a sign turned, a condition
// inverted, a statement left out. Works on the text of a file; comments, strings and imports are left alone.

const OPERATORS = [
  [/ <= /g, " < "],
  [/ < /g, " <= "],
  [/ >= /g, " > "],
  [/ > /g, " >= "],
  [/ === /g, " !== "],
  [/ !== /g, " === "],
  [/ \+ /g, " - "],
  [/ - /g, " + "],
  [/ \* /g, " / "],
  [/ && /g, " || "],
  [/ \|\| /g, " && "],
  [/ \?\? /g, " && "],
  [/\+\+/g, "--"],
  [/ \+= /g, " -= "],
  [/ -= /g, " += "],
  [/\btrue\b/g, "false"],
  [/\bfalse\b/g, "true"],
  [/\bMath\.min\b/g, "Math.max"],
  [/\bMath\.max\b/g, "Math.min"],
  [/\bMath\.ceil\b/g, "Math.floor"],
  [/\bMath\.floor\b/g, "Math.ceil"],
  [/\bcontinue;/g, "break;"],
  [/(?<![\w.$#[])([1-9]\d*)(?![\w.])/g, (digits) => String(Number(digits) + 1)],
  [/(?<![\w.$#])0(?![\w.])/g, "1"],
];
/** A call or an assignment alone on its line: the mutation leaves it out. */
const STATEMENT = /^(\s*)((?:this\.|[a-z#])[\w.#[\]!]*(?:\(.*\)| [-+*/|&]?= .*));$/;
const SKIPPED =
  /^\s*(?:\/\/|\*|\/\*|import\b|export \*|throw\b)|new (?:Error|RangeError|TypeError)\(|errorFor\(|sourceMappingURL/;

/**
 * Every mutation of a text: { line, offset, from, to, text }, where `text` is the whole file with the one change and `offset` is of a
 * character that runs whenever the change is met: the one before an operator, since what follows && may never run.
 */
export function mutationsOf(source) {
  const lines = source.split("\n");
  const found = [];
  let start = 0;
  const add = (index, column, line) => {
    const text = [...lines.slice(0, index), line, ...lines.slice(index + 1)].join("\n");
    found.push({ line: index + 1, offset: start + column, from: lines[index].trim(), to: line.trim(), text });
  };
  lines.forEach((line, index) => {
    if (!SKIPPED.test(line)) mutate(line, index);
    start += line.length + 1;
  });
  return found;

  function mutate(line, index) {
    const code = maskStrings(line);
    for (const [pattern, replacement] of OPERATORS) {
      for (const match of code.matchAll(pattern)) {
        const to = typeof replacement === "string" ? replacement : replacement(match[0]);
        const column = match[0].startsWith(" ") ? match.index - 1 : match.index;
        add(index, column, line.slice(0, match.index) + to + line.slice(match.index + match[0].length));
      }
    }
    const statement = STATEMENT.exec(line);
    if (statement !== null) add(index, statement[1].length, `${statement[1]};`);
  }
}

/** The same length, with what stands in quotes or behind // made of underscores. */
function maskStrings(line) {
  return line
    .replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`/g, (text) => "_".repeat(text.length))
    .replace(/\/\/.*$/, (text) => "_".repeat(text.length));
}
