// How far rounded weights and kernels move what a model says: log-probabilities of each token of a text, beside those of a reference file.
//   node dist/bench/logprobs.js REFERENCE.gguf FILE.gguf... [--text README.md] [--tokens 600] [--device cpu] [--isa avx512,amx] [--threads 2]
// Prints, for each file and instruction set, the root of the mean square of the differences and by how much the perplexity grows. The
// reference is what it is in f32 arithmetic where its weights are f16 or f32. Pages are f32, guesses off.

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { parseArgs } from "node:util";
import { createEngine } from "../src/index.js";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    text: { type: "string", default: "README.md" },
    tokens: { type: "string", default: "600" },
    device: { type: "string", default: "cpu" },
    isa: { type: "string", default: "" },
    threads: { type: "string" },
  },
});
const [reference, ...files] = positionals;
if (reference === undefined || files.length === 0)
  throw new Error("logprobs.js needs REFERENCE and FILE; see the head of bench/logprobs.ts");

/** Pieces of the text that a context holds, each read alone. */
const PIECE = 800;
const text = readFileSync(values.text, "utf8");
const pieces = Array.from({ length: Math.floor(text.length / PIECE) }, (_, i) =>
  text.slice(i * PIECE, (i + 1) * PIECE),
);

const mean = (of: readonly number[]): number => of.reduce((sum, x) => sum + x, 0) / of.length;

async function logprobs(model: string, isa: string): Promise<number[]> {
  if (isa !== "") process.env.PAGODA_CPU_ISA = isa;
  const engine = await createEngine({
    model,
    device: values.device as "cpu",
    kvDtype: "f32",
    speculative: "off",
    ...(values.threads === undefined ? {} : { threads: Number(values.threads) }),
  });
  const found: number[] = [];
  for (const piece of pieces) {
    if (found.length >= Number(values.tokens)) break;
    const { promptLogprobs } = await engine.generate(piece, { maxTokens: 1, temperature: 0, promptLogprobs: 0 });
    for (const token of promptLogprobs ?? []) if (token !== null) found.push(token.logprob);
  }
  await engine.close();
  return found;
}

const sets = values.isa.split(",");
const base = await logprobs(reference, sets[0]!);
console.log(`${basename(reference)}: ${base.length} tokens, perplexity ${Math.exp(-mean(base)).toFixed(3)}`);
for (const file of files)
  for (const isa of sets) {
    const own = await logprobs(file, isa);
    const moved = mean(own) - mean(base);
    const rms = Math.sqrt(mean(own.map((value, i) => (value - base[i]!) ** 2)));
    const grown = 100 * (Math.exp(-moved) - 1);
    console.log(`${basename(file)} ${isa}: ${rms.toFixed(4)}, perplexity ${grown < 0 ? "" : "+"}${grown.toFixed(2)} %`);
  }
