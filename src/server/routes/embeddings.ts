// POST /v1/embeddings: hidden states of the last token or their mean, scaled to length 1 unless told otherwise.

import { ApiError } from "../api-error.js";
import { readJson } from "../body.js";
import { Call } from "../call.js";
import type { ServerContext } from "../context.js";
import { checkModel, checkPromptLength, saltOf, tokenizeText } from "../prompt.js";
import type { Route } from "../route.js";
import { type EmbeddingBody, embeddingSchema } from "../schemas/others.js";
import { normalize } from "../vectors.js";

export const embeddings: Route = {
  method: "post",
  path: "/v1/embeddings",
  summary: "Embed texts",
  body: embeddingSchema,
  handle: async (c) => {
    const body = await readJson(c, embeddingSchema);
    const context = c.get("server");
    checkModel(context, body.model);
    const inputs = inputsOf(context, body.input);
    const call = new Call(c, "embd");
    await call.enter(0);
    try {
      const pooling = body.pooling ?? "last";
      const salt = saltOf(c, null);
      const { vectors, promptTokens } = await context.engine.embed(inputs, { pooling, salt, signal: call.signal });
      const size = vectors[0]!.length;
      if (body.dimensions != null && body.dimensions !== size) {
        const message = `dimensions is ${body.dimensions}; this model's embeddings have ${size}.`;
        throw new ApiError("invalid_value", message, { param: "dimensions" });
      }
      c.get("facts").promptTokens = promptTokens;
      const data = vectors.map((vector, index) => {
        const scaled = body.normalize === false ? vector : normalize(vector);
        return {
          object: "embedding",
          index,
          embedding: body.encoding_format === "base64" ? base64(scaled) : [...scaled],
        };
      });
      const usage = { prompt_tokens: promptTokens, total_tokens: promptTokens };
      return c.json({ object: "list", data, model: context.modelNames[0], usage });
    } finally {
      call.end();
    }
  },
};

function inputsOf(context: ServerContext, input: EmbeddingBody["input"]): (readonly number[])[] {
  const list: readonly (string | readonly number[])[] =
    typeof input === "string"
      ? [input]
      : typeof input[0] === "number"
        ? [input as number[]]
        : (input as (string | number[])[]);
  return list.map((item) => {
    if (typeof item === "string") return tokenizeText(context, item, {}, "input");
    checkPromptLength(context, item.length, "input");
    return item;
  });
}

/** Little-endian floats, as OpenAI's clients expect them. */
function base64(vector: Float32Array): string {
  return Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString("base64");
}
