// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre: how a byte-level vocabulary splits text into words before it
// merges. Each is one or more patterns, applied in turn to what the one before left; what no pattern matches is a word too.
//
// The patterns are those the vocabularies were trained with, from the models' own tokenizer.json. llama.cpp approximates the
// upper and lower case classes of tekken and gpt-4o by ASCII, and takes the text before a number with its first digits for afmoe;
// where the two differ, the model's own are right.

export interface PreTokenizer {
  readonly patterns: readonly RegExp[];
  /** A word that is a token as a whole is taken as it is, whatever its merges would give. */
  readonly ignoresMerges: boolean;
  /** A text begins with BOS unless the file says otherwise. */
  readonly addsBos: boolean;
  /** Words are merged as they are, spaces as U+2581, unknown characters as byte tokens; not in the byte-level alphabet. */
  readonly isRaw: boolean;
  /** Text is composed (NFC) first, as the models' own tokenizers do; llama.cpp does not. */
  readonly composes: boolean;
}

const CONTRACTION = "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]";
const SPACES = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const SYMBOLS = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*";

const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const LLAMA3 = `${CONTRACTION}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|${SYMBOLS}|${SPACES}`;
const QWEN2 = `${CONTRACTION}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|${SYMBOLS}|${SPACES}`;
const QWEN35 = `${CONTRACTION}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${SPACES}`;

const UPPER = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
const LOWER = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
/** Words that break where the case rises, as in CamelCase; `suffix` follows a word, `digits` are a word of their own. */
const cased = (suffix: string, digits: string): string =>
  `[^\\r\\n\\p{L}\\p{N}]?${UPPER}*${LOWER}+${suffix}|[^\\r\\n\\p{L}\\p{N}]?${UPPER}+${LOWER}*${suffix}` +
  `|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${SPACES}`;
const TEKKEN = cased("", "\\p{N}");
const GPT4O = cased(`(?:${CONTRACTION})?`, "\\p{N}{1,3}");

const HAN = "\\p{Script=Han}";
const notHan = (characters: string): string => `(?:(?!${HAN})${characters})`;
const KIMI = `${HAN}+|${cased(`(?:${CONTRACTION})?`, "\\p{N}{1,3}")
  .replaceAll(UPPER, notHan(UPPER))
  .replaceAll(LOWER, notHan(LOWER))
  .replace("[\\r\\n/]*", "[\\r\\n]*")}`;
/** Digits in threes from the right. */
const THREES = "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))";
const THREES_OF_WORDS = "\\p{Nd}{1,3}(?=(?:\\p{Nd}{3})*(?![\\p{L}\\p{M}\\p{N}\\p{Pc}]))";
const PUNCTUATED =
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+" +
  `| ?[\\p{P}\\p{S}]+[\\r\\n]*|${SPACES}`;
const AFMOE_SCRIPTS = charClass(
  "4E00-9FFF 3400-4DBF F900-FAFF 3040-309F 30A0-30FF FF65-FF9F 2F00-2FDF E40-E7F E80-EFF 1780-17FF 1000-109F AA60-AA7F " +
    "A9E0-A9FF AC00-D7AF 1100-11FF",
);
const YOUTU_SCRIPTS =
  `${charClass("AC00-D7A3 3131-318E")}+|${charClass("FF01 2026 201C 201D 2018 2019 2014 FF1A FF1B FF0C 3001-303F FE30-FE4F")}+` +
  `|${charClass("3105-312F")}+|${charClass("4E00-9FA5 3040-309F 30A0-30FF")}+`;
const EXAONE_MOE =
  `${CONTRACTION}|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?` +
  "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
const JAIS2_SPACES = [512, 256, 128, 64, 32, 16, 8, 4].map((n) => `\\s{${n}}(?!\\S)`).join("|");
const JAIS2 = LLAMA3.replace(SPACES, `\\s*[\\r\\n]+|${JAIS2_SPACES}|\\s{1,2}(?!\\S)|\\s`);
const MINICPM5 = LLAMA3.replace("\\p{N}{1,3}", "\\p{N}+");
const CHAMELEON = [
  "<sentinel:[0-9]+>",
  "IMGIMG[A-I]{1,4}Z",
  "[\\t\\n]|    |  ",
  "\\p{N}",
  "[\\p{P}!-/:-@\\[-`{-~]",
  GPT2,
];
const LINES = "[^\\n]+|[\\n]+";

const CJK = "[一-龥\u0800-一가-\uD7FF]+";
/** Letters with case, as the vocabulary was trained: code points in hex. */
const DEEPSEEK_LETTERS = charClass(
  "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A 38C " +
    "38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B " +
    "1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 " +
    "1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 " +
    "2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B " +
    "2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 " +
    "FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF " +
    "1E900-1E943",
);
const DEEPSEEK_LLM = [
  "[\\r\\n]",
  `\\s?${DEEPSEEK_LETTERS}+`,
  "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+",
  "\\s+$",
  CJK,
  "\\p{N}+",
];
const DEEPSEEK_CODER = ["[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, "\\p{N}"];
const DEEPSEEK3 = ["\\p{N}{1,3}", "[一-龥\u3040-\u309F\u30A0-\u30FF]+", PUNCTUATED];
const FALCON = ["[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"];
const DEFAULT = ["[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"];
const BLOOM = " ?[^(\\s|.,!?…。，、।۔،)]+";
const SEED_CODER = `${CONTRACTION}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|${SPACES}`;
const BAILING = `${CONTRACTION}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|${SYMBOLS}|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`;

/** "41-5A B5" -> a class of these code points and ranges. */
function charClass(ranges: string): string {
  return `[${ranges.replace(/[0-9A-F]+/g, (hex) => `\\u{${hex}}`).replaceAll(" ", "")}]`;
}

interface Row {
  readonly names: string;
  readonly patterns: readonly string[];
  readonly ignoresMerges?: boolean;
  readonly addsBos?: boolean;
  readonly isRaw?: boolean;
  readonly composes?: boolean;
}

const ROWS: readonly Row[] = [
  { names: "default", patterns: DEFAULT },
  {
    names: "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
    patterns: [LLAMA3],
    ignoresMerges: true,
    addsBos: true,
  },
  { names: "dbrx smaug-bpe glm4 chatglm-bpe", patterns: [LLAMA3] },
  { names: "qwen2", patterns: [QWEN2], composes: true },
  { names: "deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2", patterns: [QWEN2] },
  { names: "qwen35", patterns: [QWEN35], composes: true },
  {
    names:
      "gpt-2 phi-2 gigachat a.x-4.0 mellum exaone4 jais trillion granite-docling roberta-bpe " +
      "jina-v1-en jina-v2-code jina-es jina-de jina-v2-es jina-v2-de",
    patterns: [GPT2],
  },
  { names: "mpt olmo modern-bert", patterns: [GPT2], composes: true },
  { names: "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", patterns: ["\\p{N}", GPT2] },
  { names: "tekken", patterns: [TEKKEN], ignoresMerges: true, addsBos: true },
  { names: "gpt-4o llama4 kanana2 minimax-m2 talkie", patterns: [GPT4O] },
  { names: "granite-embed-multi-97m", patterns: [GPT4O], ignoresMerges: true },
  { names: "tiny_aya cohere2moe", patterns: [THREES_OF_WORDS, GPT4O] },
  { names: "kimi-k2", patterns: [KIMI] },
  { names: "youtu", patterns: [YOUTU_SCRIPTS, cased(`(?:${CONTRACTION})?`, "\\p{N}")], ignoresMerges: true },
  { names: "afmoe", patterns: [THREES, `${AFMOE_SCRIPTS}+`, PUNCTUATED] },
  { names: "jais-2", patterns: [JAIS2] },
  { names: "minicpm5", patterns: ["\\p{N}{1,3}", MINICPM5], ignoresMerges: true },
  { names: "exaone-moe", patterns: [EXAONE_MOE] },
  { names: "chameleon", patterns: CHAMELEON, addsBos: true },
  { names: "laguna", patterns: [LINES, QWEN2] },
  { names: "superbpe", patterns: ["\\p{N}+", "(?=(?:\\p{Nd}{3})+(?!\\p{Nd}))"] },
  { names: "gemma4 granite-embed-multi-311m sarvam-moe", patterns: [LINES], isRaw: true },
  { names: "whitespace", patterns: ["\\S+"], isRaw: true },
  { names: "deepseek-llm", patterns: DEEPSEEK_LLM },
  { names: "deepseek-coder", patterns: DEEPSEEK_CODER },
  { names: "deepseek-v3 hunyuan-dense joyai-llm", patterns: DEEPSEEK3 },
  { names: "falcon", patterns: FALCON },
  { names: "bloom poro-chat gpt3-finnish", patterns: [BLOOM] },
  { names: "viking", patterns: [BLOOM, "\\p{N}"] },
  { names: "seed-coder", patterns: [SEED_CODER] },
  { names: "bailingmoe bailingmoe2 llada-moe", patterns: [BAILING] },
];

const BY_NAME: ReadonlyMap<string, Row> = new Map(
  ROWS.flatMap((row) => row.names.split(" ").map((name) => [name, row])),
);

export const PRE_TOKENIZER_NAMES: readonly string[] = [...BY_NAME.keys()];

/** null when the name is not known. */
export function findPreTokenizer(name: string): PreTokenizer | null {
  const row = BY_NAME.get(name);
  if (row === undefined) return null;
  return {
    patterns: row.patterns.map(compile),
    ignoresMerges: row.ignoresMerges ?? false,
    addsBos: row.addsBos ?? false,
    isRaw: row.isRaw ?? false,
    composes: row.composes ?? false,
  };
}

/** JavaScript's \s counts the byte order mark and misses U+0085; the patterns mean Unicode's White_Space. */
function compile(pattern: string): RegExp {
  return new RegExp(pattern.replaceAll("\\s", "\\p{White_Space}").replaceAll("\\S", "\\P{White_Space}"), "gu");
}

/** The words of a text. */
export function splitWords(text: string, patterns: readonly RegExp[]): string[] {
  let words = [text];
  for (const pattern of patterns) {
    const finer: string[] = [];
    for (const word of words) {
      let end = 0;
      for (const match of word.matchAll(pattern)) {
        if (match.index > end) finer.push(word.slice(end, match.index));
        if (match[0] !== "") finer.push(match[0]);
        end = match.index + match[0].length;
      }
      if (end < word.length) finer.push(word.slice(end));
    }
    words = finer;
  }
  return words;
}
