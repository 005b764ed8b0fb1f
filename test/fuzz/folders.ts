// Model folders in which files are something else: pipes, folders, links to nowhere, to themselves and to devices, an index that names
// what is not beside it. Opening one ends, soon, in a model or in an error of ours.

import { spawnSync } from "node:child_process";
import { cpSync, linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PagodaError } from "../../src/core/errors.js";
import { openChatCheckpoint } from "../../src/engine/client/chat-checkpoint.js";
import { readTextRecipe } from "../../src/formats/hf/sentence-transformers.js";
import { seeded } from "../support/byte-matcher.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";
import { pick, type Random } from "./mutate.js";

const MOST_MS = 20_000;
const FILES = [
  ...["config.json", "generation_config.json", "quantize_config.json", "tokenizer.json", "tokenizer_config.json"],
  ...["chat_template.jinja", "additional_chat_templates", "additional_chat_templates/x.jinja", "model.safetensors"],
  ...["model.safetensors.index.json", "preprocessor_config.json", "processor_config.json", "modules.json"],
  ...["config_sentence_transformers.json", "sentence_bert_config.json", "1_Pooling/config.json", "mmproj-x.gguf"],
];
const SHARDS = [
  "../x",
  "../x/model.safetensors",
  "..",
  ".",
  "",
  "/dev/zero",
  "model.safetensors",
  "a/b",
  "a\u0000b",
  "pipe",
  7,
  null,
];
const LINKS = ["../pipe", "nowhere", "/dev/zero", ".", "..", "/", "model.safetensors", "config.json"];

export class FolderFuzzer {
  readonly #root = mkdtempSync(join(tmpdir(), "pagoda-fuzz-"));
  readonly #tiny = writeTinyCheckpoint({ layers: 1, hidden: 12 });
  readonly #folder = join(this.#root, "model");

  readonly #pipe = join(this.#root, "pipe");

  constructor() {
    if (spawnSync("mkfifo", [this.#pipe]).status !== 0) writeFileSync(this.#pipe, "no pipes here");
  }

  /** What is wrong with how the folder was taken; null when nothing is. Who waits for a pipe never returns. */
  try(seed: number): string | null {
    const random = seeded(seed);
    rmSync(this.#folder, { recursive: true, force: true });
    cpSync(this.#tiny, this.#folder, { recursive: true });
    const done: string[] = [];
    for (let i = 0; i < 1 + random() * 2; i++) done.push(this.#change(random));
    const startMs = performance.now();
    const wrong = open(this.#folder) ?? (performance.now() - startMs < MOST_MS ? null : "it took too long");
    return wrong === null ? null : `${done.join(", ")}: ${wrong}`;
  }

  #change(random: Random): string {
    if (random() < 0.25) {
      const weights = Object.fromEntries(
        ["model.norm.weight", "lm_head.weight"].map((name) => [
          name,
          pick(random, random() < 0.5 ? SHARDS : [SHARDS[6]]),
        ]),
      );
      const index = this.#cleared("model.safetensors.index.json");
      writeFileSync(index, JSON.stringify({ weight_map: weights }));
      if (random() < 0.3) linkSync(this.#pipe, this.#cleared("pipe"));
      return `index ${JSON.stringify(weights)}`;
    }
    const name = pick(random, FILES);
    const path = this.#cleared(name);
    const kind = pick(random, ["pipe", "folder", "link", "nothing", "modules"] as const);
    if (kind === "pipe") linkSync(this.#pipe, path);
    else if (kind === "folder") mkdirSync(path);
    else if (kind === "link") {
      const target = random() < 0.2 ? name : pick(random, LINKS);
      symlinkSync(target, path);
      return `${name} -> ${target}`;
    } else if (kind === "modules") {
      const type = pick(random, [
        "sentence_transformers.models.Transformer",
        "sentence_transformers.models.Pooling",
        "x.Dense",
      ]);
      const inside = pick(random, ["", "1_Pooling", "../x", "/dev", "..", "a/../../x", "\u0000"]);
      writeFileSync(this.#cleared("modules.json"), JSON.stringify([{ type, path: inside }]));
      return `module ${type} in ${JSON.stringify(inside)}`;
    }
    return `${name} is a ${kind}`;
  }

  /** The place of a file in which nothing is any more; what is above it are folders. */
  #cleared(name: string): string {
    const path = join(this.#folder, name);
    const above = join(path, "..");
    if (above !== this.#folder) {
      rmSync(above, { recursive: true, force: true });
      mkdirSync(above);
    }
    rmSync(path, { recursive: true, force: true });
    return path;
  }

  close(): void {
    for (const folder of [this.#root, this.#tiny]) rmSync(folder, { recursive: true, force: true });
  }
}

function open(folder: string): string | null {
  try {
    const { chatTemplate, config, openTensors } = openChatCheckpoint(folder);
    chatTemplate?.render([{ role: "user", content: "hi" }], { addGenerationPrompt: true });
    readTextRecipe(folder, config);
    const tensors = openTensors();
    for (const name of tensors.names()) tensors.get(name).bytes();
    tensors.close();
    return null;
  } catch (error) {
    return error instanceof PagodaError ? null : ((error as Error).stack ?? String(error));
  }
}
