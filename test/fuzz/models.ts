// Model files made wrong: opening one ends in a model or in an error of ours, never in one of JavaScript's.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PagodaError } from "../../src/core/errors.js";
import { openCheckpoint } from "../../src/engine/checkpoint.js";
import { familyOf } from "../../src/models/registry.js";
import { seeded } from "../support/byte-matcher.js";
import { convertToGguf } from "../support/gguf-converter.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";
import { mutateBytes, mutateText, mutateValue, pick } from "./mutate.js";

const JSON_FILES = ["config.json", "tokenizer.json", "tokenizer_config.json"];

export class ModelFuzzer {
  readonly #folder = writeTinyCheckpoint({ layers: 1, hidden: 12 });
  readonly #originals = new Map(
    [...JSON_FILES, "model.safetensors"].map((name) => [name, readFileSync(join(this.#folder, name))]),
  );
  readonly #gguf: Buffer;
  readonly #ggufPath: string;
  readonly #temporary = mkdtempSync(join(tmpdir(), "pagoda-fuzz-"));

  constructor() {
    this.#gguf = convertToGguf(join(process.cwd(), "models", "pagoda-stories-16m"), "q8_0").subarray(0, 400_000);
    this.#ggufPath = join(this.#temporary, "model.gguf");
  }

  /** What is wrong with how the mutated file was taken; null when nothing is. */
  try(seed: number): string | null {
    const random = seeded(seed);
    const names = [...this.#originals.keys()];
    const name = random() < 0.3 ? "model.gguf" : pick(random, names);
    if (name === "model.gguf") {
      writeFileSync(this.#ggufPath, mutateBytes(this.#gguf, random));
      return this.#open(this.#ggufPath, name);
    }
    const original = this.#originals.get(name)!;
    const isJson = name.endsWith(".json") && random() < 0.8;
    const changed = isJson ? mutateJson(original.toString(), random) : mutateBytes(original, random);
    writeFileSync(join(this.#folder, name), changed);
    try {
      return this.#open(this.#folder, name);
    } finally {
      writeFileSync(join(this.#folder, name), original);
    }
  }

  #open(path: string, name: string): string | null {
    try {
      const checkpoint = openCheckpoint(path);
      familyOf(checkpoint.config, checkpoint.configFile);
      const { tokenizer } = checkpoint;
      if (tokenizer !== null) tokenizer.decode(tokenizer.encode("Hello, wörld! 12\n<eos>"));
      checkpoint.chatTemplate?.render([{ role: "user", content: "hi" }], { addGenerationPrompt: true });
      checkpoint.openTensors().close();
      return null;
    } catch (error) {
      return error instanceof PagodaError ? null : `${name}: ${(error as Error).stack ?? String(error)}`;
    }
  }

  close(): void {
    for (const folder of [this.#folder, this.#temporary]) rmSync(folder, { recursive: true, force: true });
  }
}

function mutateJson(text: string, random: () => number): string {
  const value = mutateValue(JSON.parse(text), random);
  const changed = JSON.stringify(value) ?? "";
  return random() < 0.2 ? mutateText(changed, random) : changed;
}
