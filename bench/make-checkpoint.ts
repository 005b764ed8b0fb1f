// Writes a random-weight checkpoint of a real shape (a Llama's, or of a folder moe, mla, wide, hybrid: checkpoint/families.ts), seeded and the same every time: speed can be measured without a
// download. The weights mean nothing; the tokenizer and the chat template work.
//   node dist/bench/make-checkpoint.js --shape 135m --type q4_0 --out 135m-q4_0.gguf     one GGUF file
//   node dist/bench/make-checkpoint.js --shape 1b --type bf16 --out 1b-bf16              a Hugging Face folder

import { realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { helpOf, parseFlags } from "../src/cli/args.js";
import { bytes } from "../src/cli/terminal.js";
import { type OptionTable, resolveOptions } from "../src/config/options.js";
import { errorFor, PagodaError } from "../src/core/errors.js";
import { FAMILIES, llamaModel } from "./checkpoint/families.js";
import { RandomWeights } from "./checkpoint/random-weights.js";
import { SHAPES } from "./checkpoint/shapes.js";
import { makeVocabulary } from "./checkpoint/vocabulary.js";
import { type FolderType, writeModelFolder } from "./checkpoint/write-folder.js";
import { writeGgufModel } from "./checkpoint/write-gguf.js";
import { MATRIX_TYPES, type MatrixType } from "./lab/random-matrix.js";

export interface CheckpointOptions {
  readonly shape: string;
  readonly type: MatrixType | "fp8";
  readonly seed: number;
  readonly out: string;
}

const OPTIONS = {
  shape: {
    type: "choice",
    choices: [...Object.keys(SHAPES), ...Object.keys(FAMILIES)],
    default: "135m",
    help: "shape of the model",
  },
  type: {
    type: "choice",
    choices: [...MATRIX_TYPES, "fp8"],
    default: "f16",
    help: "encoding of the matrices; q8_0 and q4_0 are for GGUF files, fp8 (blocks of 128 x 128) is for folders",
  },
  seed: { type: "integer", min: 0, max: 2 ** 32 - 1, default: 1, help: "the same seed gives the same weights" },
  out: { type: "string", default: "", defaultText: "required", help: "FILE.gguf, or a folder for safetensors" },
} as const satisfies OptionTable;

/** Returns the size of the weights' file. */
export function makeCheckpoint({ shape: name, type, seed, out }: CheckpointOptions): number {
  const shape = SHAPES[name];
  const model = shape === undefined ? FAMILIES[name]! : llamaModel(shape);
  const weights = new RandomWeights(seed);
  const vocabulary = makeVocabulary(model.vocab);
  const refused = (expected: string) => errorFor("invalid_option", { param: "--type", value: type, expected });
  if (out.endsWith(".gguf")) {
    if (shape === undefined) {
      throw errorFor("invalid_option", { param: "--out", value: out, expected: `a folder for the shape ${name}` });
    }
    if (type === "fp8") throw refused(`${MATRIX_TYPES.join(", ")} for a GGUF file`);
    return writeGgufModel(out, `random-${name}`, shape, type, weights, vocabulary);
  }
  if (type === "q8_0" || type === "q4_0") throw refused("f32, f16, bf16 or fp8 for a folder");
  return writeModelFolder(out, model, type satisfies FolderType, weights, vocabulary);
}

function main(args: readonly string[]): number {
  const { values, positionals, wantsHelp } = parseFlags(OPTIONS, args);
  const options = resolveOptions<CheckpointOptions>(OPTIONS, values);
  if (wantsHelp || positionals.length > 0 || options.out === "") {
    process.stdout.write(`Usage: node dist/bench/make-checkpoint.js --out PATH [options]\n\n${helpOf(OPTIONS)}\n`);
    return wantsHelp ? 0 : 2;
  }
  const size = makeCheckpoint(options);
  process.stdout.write(`${options.out}: random ${options.shape} in ${options.type}, ${bytes(size)}\n`);
  return 0;
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    process.exitCode = main(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof PagodaError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 2;
  }
}
