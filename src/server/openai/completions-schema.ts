// The body of /v1/completions.

import { z } from "zod";
import { fieldOf, samplingFields } from "../schemas/sampling.js";

const maybe = <T extends z.ZodType>(schema: T) => schema.nullish();
const ids = z.array(z.int().min(0)).min(1);

export const completionSchema = z.strictObject({
  prompt: z
    .union([z.string(), ids, z.array(z.string()).min(1).max(128), z.array(ids).min(1).max(128)])
    .meta({ description: "Text or token ids, one or several." }),
  ...samplingFields,
  logprobs: maybe(fieldOf("logprobs")),
  echo: maybe(z.boolean()),
  best_of: maybe(z.int()).meta({ description: "Only as many as n." }),
  suffix: maybe(z.string()).meta({ description: "What follows the gap to fill; for models trained to infill." }),
  add_special_tokens: maybe(z.boolean()),
});

export type CompletionBody = z.output<typeof completionSchema>;
