// Reads what people read: pages (those of options and errors are the tables of the source) and the change log's head. Finds sentences of more
// than 30 words, and words that make a reader look twice. A semicolon ends a sentence; one that lists
// things may have half as many words more, and a list of names any number.
//   node scripts/prose.mjs [PAGE...]      every finding; without pages the number of each
//   node scripts/prose.mjs --check        fails where a page that is held has one more than it may
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const MOST_WORDS = 30;
/** Of a sentence with four commas or more. */
const MOST_IN_A_LIST = 45;

/** What to write instead is in the second place. */
const AVOIDED = [
  [/\bleft out:/i, "default:"],
  [/\bso many\b/i, "a number, or: this many"],
  [/\bwhoever\b/i, "name the one who acts"],
  [/\bask(?:s|ed|ing)? for\b/i, "requests, needs, reads"],
  [/\bfor want of\b/i, "without"],
  [/\b(?:is|are|was|were|has|have|there) none\b/i, "no, or: without"],
  [/\b(?:goes|go|went|going) on\b/i, "continues"],
  [/\b(?:is|are|was|were|be) told\b/i, "receives, gets"],
  [/\bhears? (?:of|from)\b/i, "receives, sees"],
  [/\bthey fare\b/i, "their status"],
  [/\bfront door\b/i, "router"],
  [/\band kin\b/i, "and similar"],
  [/\bof before\b/i, "earlier, previous"],
  [/\blets? go of\b|\blet(?:ting)? go\b/i, "releases, frees"],
  [/\bhow (?:far|well) .{0,30} (?:is|are) from it\b/i, "how much it differs"],
  [/\bsince it (?:may|must)\b/i, "because"],
  [/\bbefalls?\b|\bbefell\b/i, "happens to"],
  [/\bfurnish/i, "provide"],
  [/\bin silence\b/i, "silently"],
  [/(?:^|[.:;] )Who (?:has|is|wants|may|uses|follows|takes|does)\b/, "name the one who acts"],
];

/** The prose of a page: no code blocks, tables' rules, comments; links are their text, code is one word. */
function sentencesOf(markdown) {
  const text = markdown
    .replaceAll(/^---\n[\s\S]*?\n---\n/g, "")
    .replaceAll(/<!--[\s\S]*?-->/g, "")
    .replaceAll(/^( *)```[\s\S]*?^\1```/gm, "\n\n")
    .replaceAll(/\n\n(?: {4,}.*\n)+/g, "\n\n")
    .replaceAll(/!\[[^\]]*\]\([^)]*\)/g, "")
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replaceAll(/`[^`\n]+`/g, "Code")
    .replaceAll(/<[^>\n]+>/g, " ")
    .replaceAll("**", "");
  const blocks = text
    .split(/\n(?=\s*(?:[-*] |\d+\. |#|\|))|\n\s*\n/)
    .flatMap((block) => (/^\s*\|/.test(block) ? block.split("|") : [block]))
    .map((block) =>
      block
        .replace(/^\s*(?:[-*] |\d+\. |#+ |>)/, "")
        .replaceAll(/\s+/g, " ")
        .trim(),
    )
    .filter((block) => /[a-z]{2}/.test(block));
  return blocks.flatMap((block) => block.split(/(?<=[.!?]["”')]*) (?=["“(]?[A-Z0-9])|(?<=;) /));
}

const wordsOf = (sentence) => sentence.split(" ").filter((word) => /[\p{L}\p{N}]/u.test(word)).length;

function findingsOf(sentences) {
  return sentences.flatMap((sentence) => {
    const pieces = sentence.split(/, | · /).length;
    const isNames = wordsOf(sentence) / pieces <= 4;
    const most = isNames ? Number.POSITIVE_INFINITY : pieces > 4 ? MOST_IN_A_LIST : MOST_WORDS;
    const long = wordsOf(sentence) > most ? [{ what: `${wordsOf(sentence)} words`, sentence }] : [];
    const bad = AVOIDED.filter(([pattern]) => pattern.test(sentence)).map(([pattern, instead]) => ({
      what: `"${pattern.exec(sentence)[0].trim()}": ${instead}`,
      sentence,
    }));
    return [...long, ...bad];
  });
}

/** The head of the change log: what was released is history. */
const unreleased = (text) => text.slice(0, text.indexOf("\n## ", text.indexOf("## Unreleased") + 1) >>> 0);

function pages() {
  const docs = readdirSync("docs", { recursive: true, encoding: "utf8" }).map((name) => join("docs", name));
  return ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", ...docs]
    .filter((path) => path.endsWith(".md"))
    .map((path) => path.replaceAll("\\", "/"))
    .sort();
}

function proseOf(path) {
  const text = readFileSync(path, "utf8");
  return sentencesOf(path === "CHANGELOG.md" ? unreleased(text) : text);
}

/** Findings that a page may have: a change need not wait for its editor. Measurements keep the words they were written down with. */
const SLACK = 2;
const isHeld = (path) => !path.includes("laboratory");

const named = process.argv.slice(2);
if (named[0] === "--check") {
  const over = pages().filter((path) => isHeld(path) && findingsOf(proseOf(path)).length > SLACK);
  show(over);
  process.exitCode = over.length > 0 ? 1 : 0;
} else if (named.length > 0) show(named);
else for (const path of pages()) console.log(`${String(findingsOf(proseOf(path)).length).padStart(4)} ${path}`);

function show(paths) {
  for (const path of paths)
    for (const { what, sentence } of findingsOf(proseOf(path))) console.log(`${path}: ${what}\n    ${sentence}`);
}
