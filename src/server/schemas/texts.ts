// The bodies of the endpoints that embed, score and rerank texts.

import { z } from "zod";
import { POOLINGS } from "../../core/pooling.js";

const maybe = <T extends z.ZodType>(schema: T) => schema.nullish();
const ids = z.array(z.int().min(0)).min(1);
const MOST_TEXTS = 2048;

const cutting = {
  truncate_prompt_tokens: maybe(z.int().min(-1)).meta({
    description:
      "Longer texts are cut to this number of tokens; -1: to the model's limit. Without it they are refused.",
  }),
  truncate: maybe(z.boolean()).meta({ description: "true is truncate_prompt_tokens -1." }),
};

export const embeddingSchema = z.strictObject({
  model: z.string().optional(),
  input: z.union([z.string(), ids, z.array(z.string()).min(1).max(MOST_TEXTS), z.array(ids).min(1).max(MOST_TEXTS)]),
  encoding_format: maybe(z.enum(["float", "base64"])),
  dimensions: maybe(z.int().min(1)).meta({ description: "Length of each vector: its first numbers." }),
  pooling: maybe(z.enum(POOLINGS)).meta({ description: "Which hidden states make the vector; the checkpoint's own." }),
  normalize: maybe(z.boolean()).meta({ description: "Scale to length 1; on unless false." }),
  prompt_name: maybe(z.string()).meta({ description: "One of the checkpoint's prompts, put before each text." }),
  input_type: maybe(z.string()).meta({ description: "query or document: the checkpoint's prompt for it, if any." }),
  ...cutting,
  user: z.unknown().optional(),
});

const scoring = {
  instruction: maybe(z.string()).meta({ description: "What rerankers that are asked for a verdict judge by." }),
  use_activation: maybe(z.boolean()).meta({ description: "false: the numbers before the model's activation." }),
  ...cutting,
  user: z.unknown().optional(),
};

export const rerankSchema = z.strictObject({
  model: z.string().optional(),
  query: z.string(),
  documents: z
    .array(z.union([z.string(), z.object({ text: z.string() })]))
    .min(1)
    .max(MOST_TEXTS),
  top_n: maybe(z.int().min(0)).meta({ description: "Number of best results; 0 is all." }),
  return_documents: maybe(z.boolean()),
  ...scoring,
});

const texts = z.union([z.string(), z.array(z.string()).min(1).max(MOST_TEXTS)]);

export const scoreSchema = z.strictObject({
  model: z.string().optional(),
  text_1: texts,
  text_2: texts,
  ...scoring,
});

export type EmbeddingBody = z.output<typeof embeddingSchema>;
export type ScoreBody = z.output<typeof scoreSchema>;
