// Checkpoints that see, for tests of whole conversations: a golden's tower and weights, with a tokenizer of bytes and a chat template such as its
// family has. Bytes are the last 256 of its 320 ids, so that the golden's image tokens keep theirs.

import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FIRST_BYTE = 64;

interface Family {
  /** Of tokens 10 (a picture's), 11 and 12 (around them), and from 13 on. */
  readonly names: readonly string[];
  /** What the template writes for a picture. */
  readonly placeholder: string;
  /** Its texts are in lists of parts alone. */
  readonly listsOnly?: boolean;
}

const QWEN: Family = {
  names: ["<|image_pad|>", "<|vision_start|>", "<|vision_end|>"],
  placeholder: "<|vision_start|><|image_pad|><|vision_end|>",
};
const ROWS = Array.from({ length: 4 }, (_, r) =>
  Array.from({ length: 4 }, (_, c) => `<row_${r + 1}_col_${c + 1}>`),
).flat();

export const SEEING_FAMILIES: Readonly<Record<string, Family>> = {
  qwen3vl: QWEN,
  qwen25vl: QWEN,
  qwen35vl: QWEN,
  llava: { names: ["<image>"], placeholder: "<image>\n", listsOnly: true },
  mistral3: { names: ["[IMG]", "[INST]", "[/INST]", "[IMG_BREAK]", "[IMG_END]"], placeholder: "[IMG]" },
  gemma3: { names: ["<image_soft_token>", "<start_of_image>", "<end_of_image>"], placeholder: "<start_of_image>" },
  gemma4: { names: ["<|image|>", "<|image>", "<image|>"], placeholder: "\n\n<|image|>\n\n" },
  internvl: { names: ["<IMG_CONTEXT>", "<img>", "</img>"], placeholder: "<IMG_CONTEXT>\n" },
  smolvlm: {
    names: ["<image>", "<end_of_utterance>", "<x>", "<fake_token_around_image>", "<global-img>", ...ROWS],
    placeholder: "<image>",
    listsOnly: true,
  },
};

export interface SeeingOptions {
  /** A template that knows of no parts. */
  readonly isPlain?: boolean;
  /** Over those of preprocessor_config.json. */
  readonly processor?: Readonly<Record<string, unknown>>;
}

/** Copies the golden's folder and returns its path. */
export function seeingCheckpoint(
  golden: string,
  name: string,
  { isPlain = false, processor = {} }: SeeingOptions = {},
): string {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-seeing-"));
  cpSync(golden, folder, {
    recursive: true,
    filter: (file) => !file.endsWith(".png") && !file.endsWith("golden.json"),
  });
  const { names, placeholder, listsOnly = false } = SEEING_FAMILIES[name]!;
  const special = Array.from(
    { length: FIRST_BYTE },
    (_, id) => names[id - 10] ?? ["<pad>", "<bos>", "<eos>", "<|user|>", "<|assistant|>"][id] ?? `<${id}>`,
  );
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(byteTokenizer(special)));
  const chat_template = isPlain ? PLAIN : template(JSON.stringify(placeholder), listsOnly);
  writeFileSync(
    join(folder, "tokenizer_config.json"),
    JSON.stringify({ eos_token: "<eos>", bos_token: "<bos>", chat_template }),
  );
  const file = join(folder, "preprocessor_config.json");
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), ...processor }));
  return folder;
}

const END = "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
const PLAIN = `{% for m in messages %}<|{{ m.role }}|>{{ m.content }}${END}`;

function template(placeholder: string, listsOnly: boolean): string {
  const parts = `{% for part in m.content %}{% if part.type == "image" %}{{ ${placeholder} }}{% else %}{{ part.text }}{% endif %}{% endfor %}`;
  const content = listsOnly ? parts : `{% if m.content is string %}{{ m.content }}{% else %}${parts}{% endif %}`;
  return `{% for m in messages %}<|{{ m.role }}|>${content}${END}`;
}

function byteTokenizer(special: readonly string[]): unknown {
  const vocab: Record<string, number> = {};
  let shifted = 0;
  for (let byte = 0; byte < 256; byte++) {
    const isPlain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    vocab[String.fromCodePoint(isPlain ? byte : 256 + shifted++)] = FIRST_BYTE + byte;
  }
  const rest = { special: true, single_word: false, lstrip: false, rstrip: false, normalized: false };
  return {
    version: "1.0",
    added_tokens: special.map((content, id) => ({ id, content, ...rest })),
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: null,
    decoder: { type: "ByteLevel" },
    model: { type: "BPE", vocab, merges: [], byte_fallback: false },
  };
}
