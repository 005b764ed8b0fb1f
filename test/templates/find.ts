// Chat templates as they lie about on a disk: *.jinja files, model folders (tokenizer_config.json, chat_template.json) and GGUF
// files, searched through with all their folders. Each text is given once, under the name it was first found by.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { openGguf } from "../../src/formats/gguf/gguf.js";
import { chatTemplatesOf } from "../../src/formats/hf/model-folder.js";
import { readJsonObject } from "../../src/formats/json-file.js";
import { readGgufChatTemplates } from "../../src/tokenizer/gguf-vocab.js";

export interface FoundTemplate {
  readonly name: string;
  readonly source: string;
}

/** `places`: files and folders. */
export function findTemplates(places: readonly string[]): FoundTemplate[] {
  const found = new Map<string, string>();
  for (const file of places.flatMap(filesOf).sort()) {
    for (const [name, source] of templatesIn(file)) if (!found.has(source)) found.set(source, name);
  }
  return [...found].map(([source, name]) => ({ name, source }));
}

function filesOf(place: string): string[] {
  if (!statSync(place).isDirectory()) return [place];
  return readdirSync(place, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

function templatesIn(file: string): [string, string][] {
  if (file.endsWith(".jinja")) return [[basename(file, ".jinja"), readFileSync(file, "utf8")]];
  const named = namedTemplates(file);
  const owner = file.endsWith(".gguf") ? basename(file) : basename(dirname(file));
  return [...named].map(([name, source]) => [name === "default" ? owner : `${owner} ${name}`, source]);
}

function namedTemplates(file: string): ReadonlyMap<string, string> {
  if (file.endsWith(".gguf")) return readGgufChatTemplates(openGguf(file).metadata);
  if (!/^(tokenizer_config|chat_template)\.json$/.test(basename(file))) return new Map();
  return chatTemplatesOf(readJsonObject(file).chat_template);
}
