// The eyes of a GGUF model, in a file of their own (mmproj): a tower's configuration, tensors and processor as a Hugging Face folder would have
// them. What a converter changed is undone here, lazily, as for the text model.

import { existsSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { FormatError } from "../../../core/errors.js";
import type { TensorSource } from "../../../core/tensor.js";
import { openGguf } from "../gguf.js";
import { GgufKeys } from "../gguf-keys.js";
import { type Projector, projectors } from "./projectors.js";
import { towerTensors } from "./tower-tensors.js";

export interface Mmproj {
  readonly path: string;
  /** What visionOf and a family's parseConfig read, beside the fields of the text model's. */
  readonly config: Record<string, unknown>;
  /** Of the tower and its projector, under their Hugging Face names. */
  readonly source: TensorSource;
  /** What stands for preprocessor_config.json. */
  readonly processor: Record<string, unknown>;
}

export interface TextOfMmproj {
  /** As of config.json, or of the text_config in it. */
  readonly config: Record<string, unknown>;
  /** null: the tokenizer has no such token. */
  tokenId(text: string): number | null;
}

export function openMmproj(path: string, text: TextOfMmproj): Mmproj {
  const file = openGguf(path);
  const refuse = (param: string, value: unknown, known: string): FormatError =>
    new FormatError("unsupported_model_option", { file: path, param, value: String(value), known });
  const architecture = file.metadata.get("general.architecture");
  if (architecture !== "clip") throw refuse("general.architecture", architecture, "clip");
  const type = file.metadata.get("clip.vision.projector_type") ?? file.metadata.get("clip.projector_type") ?? "mlp";
  const projector: Projector | undefined = projectors[String(type)];
  if (projector === undefined) throw refuse("clip.projector_type", type, Object.keys(projectors).join(", "));
  const keys = new GgufKeys(file.metadata, "clip", path);
  const { config, processor } = projector.read(keys, file.source, text.config);
  const imageToken = projector.tokens.map((token) => text.tokenId(token)).find((id) => id !== null);
  const given = text.config.image_token_id ?? text.config.image_token_index ?? imageToken;
  if (typeof given !== "number") throw refuse("image token", "missing", projector.tokens.join(", "));
  return {
    path,
    config: { ...config, image_token_id: given, image_token_index: given, text_config: text.config },
    source: towerTensors(file.source, projector, config.vision_config),
    processor,
  };
}

const PREFERRED = ["f32", "bf16", "f16", "q8_0"];

/** The mmproj beside a model file: the only one, or that with the most bits; null: there is none. */
export function mmprojBeside(model: string): string | null {
  const folder = dirname(model);
  if (!existsSync(folder) || /mmproj/i.test(basename(model))) return null;
  const files = readdirSync(folder)
    .filter((name) => /mmproj/i.test(name) && name.endsWith(".gguf"))
    .sort();
  const bits = (name: string): number =>
    PREFERRED.findIndex((dtype) => new RegExp(`[-_.]${dtype}\\b`, "i").test(name)) % PREFERRED.length;
  const rank = (name: string): number => (bits(name) < 0 ? PREFERRED.length : bits(name));
  const best = files.sort((a, b) => rank(a) - rank(b))[0];
  return best === undefined ? null : join(folder, best);
}
