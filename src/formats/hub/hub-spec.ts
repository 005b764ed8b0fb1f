// What a user may write for a model of the hub, ORG/NAME[@REVISION][:FILE or QUANTISATION], and which of a repository's files
// it means. Pure: works on lists of names, of the hub or of the cache alike.

import { FormatError } from "../../core/errors.js";

export interface HubSpec {
  /** ORG/NAME, or NAME of a few old models. */
  readonly repo: string;
  /** Branch, tag or commit. */
  readonly revision: string;
  /** A .gguf file or a quantisation; null: the safetensors folder, or the one GGUF worth having. */
  readonly choice: string | null;
  /** As written, for messages. */
  readonly text: string;
}

export const HUB_URL = "https://huggingface.co";

const NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,95}";
const SPEC = new RegExp(`^((?:${NAME}/)?${NAME})(?:@([A-Za-z0-9][A-Za-z0-9._/-]*))?(?::([^:\\\\]+))?$`);

/** null when the text cannot be a model of the hub. */
export function parseHubSpec(text: string): HubSpec | null {
  const match = SPEC.exec(text);
  if (match === null || /\.\.|--|\/\/|^[^:]*\.gguf/.test(text)) return null; // what ends in .gguf was meant as a path
  return { repo: match[1]!, revision: match[2] ?? "main", choice: match[3] ?? null, text };
}

/** The files to have, and the one to open: null is the folder itself. */
export interface FileChoice {
  readonly files: readonly string[];
  readonly main: string | null;
}

/** Files of a folder that an engine reads; other formats of the same weights stay on the hub. */
const FOLDER_FILES = [
  /^(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|chat_template)\.json$/,
  /^(quantize_config|quant_config|model\.safetensors\.index)\.json$/,
  /^(additional_chat_templates\/)?[\w.-]+\.jinja$/,
  /^model(-\d{5}-of-\d{5})?\.safetensors$/,
  // How pictures are prepared.
  /^(preprocessor_config|processor_config)\.json$/,
  // How texts become vectors or scores, after sentence-transformers.
  /^(modules|config_sentence_transformers|sentence_bert_config|\d+_\w+\/config)\.json$/,
  /^\d+_Dense\/model\.safetensors$/,
];

/** Taken when a repository has many quantisations and nobody chose: small, and close to the full weights. */
const USUAL_QUANTISATION = "Q4_K_M";

export function chooseFiles(spec: HubSpec, paths: readonly string[]): FileChoice {
  const ggufs = groupParts(paths);
  const hasFolder = paths.includes("config.json") && paths.some((path) => FOLDER_FILES[3]!.test(path));
  if (spec.choice === null && hasFolder) {
    return { files: paths.filter((path) => FOLDER_FILES.some((pattern) => pattern.test(path))), main: null };
  }
  const { choice } = spec;
  let chosen = [...ggufs.values()];
  if (choice !== null) {
    chosen = chosen.filter(([first]) => first === choice || first === `${choice}.gguf`);
    if (chosen.length === 0) chosen = byQuantisation(ggufs, choice);
  } else if (chosen.length > 1) {
    chosen = byQuantisation(ggufs, USUAL_QUANTISATION);
  }
  if (chosen.length === 1) {
    const main = chosen[0]![0]!;
    return { files: [...chosen[0]!, ...eyesBeside(main, paths)], main };
  }
  const offers = [...ggufs.values()].map(([first]) => `:${quantisationOf(first!) ?? first}`);
  throw new FormatError("model_not_found", {
    path: spec.text,
    reason:
      offers.length === 0
        ? "it holds neither safetensors nor GGUF files."
        : `${choice === null ? "choose" : `nothing or too much matches ${choice}; choose`} one of ${offers.join(" ")}`,
  });
}

/** Which of several files with a model's eyes is taken. */
const USUAL_EYES = ["F16", "BF16", "F32", "Q8_0"];

/** The file holds a model's eyes, and nothing else. */
export function hasEyes(path: string): boolean {
  return /mmproj[^/]*\.gguf$/i.test(path);
}

/** The file with the eyes of a GGUF model (mmproj), where its folder has one. */
function eyesBeside(main: string, paths: readonly string[]): string[] {
  const folderOf = (path: string): string => path.slice(0, path.lastIndexOf("/") + 1);
  const eyes = paths.filter((path) => hasEyes(path) && folderOf(path) === folderOf(main)).sort();
  const usual = USUAL_EYES.map((kind) => eyes.find((path) => quantisationOf(path) === kind)).find(Boolean);
  return eyes.length === 0 ? [] : [usual ?? eyes[0]!];
}

/** The GGUF models among the files by name, the parts of a split one together and in order. */
export function groupParts(paths: readonly string[]): Map<string, string[]> {
  const groups = new Map<string, string[]>();
  for (const path of [...paths].sort()) {
    if (!path.endsWith(".gguf") || /mmproj|imatrix/i.test(path)) continue; // parts of a model that we do not run
    const stem = path.replace(/-\d{5}-of-(\d{5})\.gguf$/, "-of-$1.gguf");
    groups.set(stem, [...(groups.get(stem) ?? []), path]);
  }
  return groups;
}

/** How many parts a GGUF file says it has. */
export function partsOf(path: string): number {
  return Number(/-of-(\d{5})\.gguf$/.exec(path)?.[1] ?? 1);
}

/** "Q4_K_M" of model-Q4_K_M.gguf; null when the name does not tell. */
export function quantisationOf(path: string): string | null {
  const name = path
    .split("/")
    .at(-1)!
    .replace(/(-\d{5}-of-\d{5})?\.gguf$/, "");
  const match = /(?:^|[-._])((?:UD-)?(?:I?Q\d\w*|TQ\d\w*|BF16|F16|F32|FP16|MXFP4(?:_\w+)?))$/i.exec(name);
  return match === null ? null : match[1]!.toUpperCase();
}

function byQuantisation(ggufs: ReadonlyMap<string, string[]>, wanted: string): string[][] {
  return [...ggufs.values()].filter(([first]) => quantisationOf(first!) === wanted.toUpperCase());
}
