// Model files made wrong: loading one ends in an engine or in an error of ours, never in one of JavaScript's. The device computes
// nothing, so that what is tried is the reading: config, tokenizer, template, tensors, and the parts of an engine sized by them.

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { engineConfig } from "../../src/config/engine-config.js";
import { PagodaError } from "../../src/core/errors.js";
import { openChatCheckpoint } from "../../src/engine/client/chat-checkpoint.js";
import { loadEngine } from "../../src/engine/core/load/load.js";
import { sentencePieceJson } from "../fixtures/vocabularies.js";
import { seeded } from "../support/byte-matcher.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";
import { wordPiece } from "../support/tiny-encoder.js";
import { ggufSubjects } from "./gguf.js";
import { mutateBytes, mutateText, mutateValue, pick, type Random } from "./mutate.js";

/** A file to be made wrong, and the files that stand beside it. */
interface Subject {
  readonly name: string;
  readonly others: ReadonlyMap<string, Buffer>;
  mutated(random: Random): string | Uint8Array;
}

const MODEL_FILES = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"];
const GOLDENS = join("test", "goldens");
const CHATS = join("test", "fixtures", "jinja", "chats");
const CHAT = [
  { role: "user", content: "hi" },
  { role: "assistant", content: "Hello" },
  { role: "user", content: "and?" },
];

export class ModelFuzzer {
  readonly #subjects: readonly Subject[] = subjects();
  readonly #folder = mkdtempSync(join(tmpdir(), "pagoda-fuzz-"));
  #standing: ReadonlyMap<string, Buffer> | null = null;

  /** What is wrong with how the mutated file was taken; null when nothing is. */
  async try(seed: number): Promise<string | null> {
    const random = seeded(seed);
    const { name, others, mutated } = pick(random, this.#subjects);
    if (this.#standing !== others) this.#place(others);
    const path = join(this.#folder, name);
    writeFileSync(path, mutated(random));
    const wrong = await load(name.endsWith(".gguf") ? path : this.#folder);
    rmSync(path);
    if (others.has(name)) writeFileSync(path, others.get(name)!);
    return wrong === null ? null : `${name} beside ${others.get("config.json")?.toString() ?? "nothing"}: ${wrong}`;
  }

  #place(files: ReadonlyMap<string, Buffer>): void {
    for (const name of readdirSync(this.#folder)) rmSync(join(this.#folder, name));
    for (const [name, content] of files) writeFileSync(join(this.#folder, name), content);
    this.#standing = files;
  }

  close(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

async function load(model: string): Promise<string | null> {
  try {
    const { tokenizer, chatTemplate } = openChatCheckpoint(model);
    if (tokenizer !== null) tokenizer.decode(tokenizer.encode("Hello, wörld! 12\n<eos>"));
    chatTemplate?.render(CHAT, { addGenerationPrompt: true });
    await loadEngine(engineConfig({ model, device: "null", numPages: 16, maxContext: 64 }), () => {});
    return null;
  } catch (error) {
    return error instanceof PagodaError ? null : ((error as Error).stack ?? String(error));
  }
}

/** Every file of a tiny Llama, other kinds of tokenizers and templates in their places, the config of every golden, GGUF files. */
function subjects(): Subject[] {
  const folder = writeTinyCheckpoint({ layers: 1, hidden: 12 });
  const tiny = filesOf(folder, MODEL_FILES);
  rmSync(folder, { recursive: true });
  const vocabularies = [sentencePieceJson(), wordPiece()].map((json) => Buffer.from(JSON.stringify(json)));
  const goldens = [GOLDENS, join(GOLDENS, "variants")]
    .flatMap((from) => readdirSync(from).map((name) => join(from, name)))
    .filter((path) => existsSync(join(path, "config.json")))
    .map((path) => filesOf(path, ["config.json", "model.safetensors"]));
  const noFiles = new Map<string, Buffer>();
  const ggufs = ggufSubjects(GOLDENS).map((gguf) => ({
    name: "model.gguf",
    others: noFiles,
    mutated: (random: Random) => gguf.mutated(random),
  }));
  return [
    ...MODEL_FILES.map((name) => subject(tiny, name)),
    ...repeated(
      [...vocabularies, tiny.get("tokenizer.json")!].map((json) => subject(tiny, "tokenizer.json", json)),
      4,
    ),
    ...readdirSync(CHATS).map((name) => subject(tiny, "chat_template.jinja", readFileSync(join(CHATS, name)))),
    ...goldens.map((files) => subject(files, "config.json")),
    ...goldens.slice(0, 5).map((files) => subject(files, "model.safetensors")),
    ...repeated(ggufs, 5),
  ];
}

/** The file of that name among the files, or `content` in its place. */
function subject(files: ReadonlyMap<string, Buffer>, name: string, content = files.get(name)!): Subject {
  return { name, others: files, mutated: (random) => mutated(name, content, random) };
}

/** What has most to go wrong is tried more often. */
function repeated<T>(items: readonly T[], times: number): T[] {
  return Array.from({ length: times }, () => items).flat();
}

function filesOf(folder: string, names: readonly string[]): Map<string, Buffer> {
  return new Map(names.map((name) => [name, readFileSync(join(folder, name))]));
}

function mutated(name: string, original: Buffer, random: Random): string | Uint8Array {
  if (name.endsWith(".jinja")) return mutateText(original.toString(), random);
  if (!name.endsWith(".json") || random() < 0.1) return mutateBytes(original, random);
  const changed = JSON.stringify(mutateValue(JSON.parse(original.toString()), random)) ?? "";
  return random() < 0.1 ? mutateText(changed, random) : changed;
}
