// Ollama's API: texts to vectors.

import { checkModel } from "../calls/prompt.js";
import { runTexts } from "../calls/text-call.js";
import { readJson } from "../http/body.js";
import { numbersOf, replyInPieces } from "../http/long-reply.js";
import type { Route } from "../http/route.js";
import { NS_PER_MS, shapeError } from "./form.js";
import { ollamaEmbeddingsSchema, ollamaEmbedSchema } from "./schema.js";

export const ollamaEmbed: Route = {
  method: "post",
  path: "/api/embed",
  summary: "Embed texts (Ollama's API)",
  body: ollamaEmbedSchema,
  shapeError,
  handle: async (c) => {
    const body = await readJson(c, ollamaEmbedSchema, { takesLongTexts: true });
    const context = c.get("server");
    checkModel(context, body.model);
    const texts = typeof body.input === "string" ? [body.input] : body.input;
    const startMs = performance.now();
    return runTexts(c, "embd", async (options) => {
      const { vectors, promptTokens } = await context.engine.embed(texts, {
        ...options,
        truncate: body.truncate ?? true,
        normalize: true,
        ...(body.dimensions == null ? {} : { dimensions: body.dimensions }),
      });
      const head = {
        model: context.modelNames[0],
        total_duration: Math.round((performance.now() - startMs) * NS_PER_MS),
        load_duration: 0,
        prompt_eval_count: promptTokens,
      };
      return replyInPieces(c, head, [{ name: "embeddings", parts: vectors, write: numbersOf }]);
    });
  },
};

export const ollamaEmbeddings: Route = {
  method: "post",
  path: "/api/embeddings",
  summary: "Embed one text (Ollama's older API)",
  body: ollamaEmbeddingsSchema,
  shapeError,
  handle: async (c) => {
    const body = await readJson(c, ollamaEmbeddingsSchema, { takesLongTexts: true });
    const context = c.get("server");
    checkModel(context, body.model);
    return runTexts(c, "embd", async (options) => {
      const { vectors } = await context.engine.embed([body.prompt], { ...options, truncate: true, normalize: true });
      return c.json({ embedding: [...vectors[0]!] });
    });
  },
};
