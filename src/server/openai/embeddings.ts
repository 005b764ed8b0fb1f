// POST /v1/embeddings: a vector for each text, made as the checkpoint states, scaled to length 1 unless told otherwise.

import { checkModel } from "../calls/prompt.js";
import { runTexts, truncateOf, usageOf } from "../calls/text-call.js";
import { readJson } from "../http/body.js";
import { numbersOf, replyInPieces } from "../http/long-reply.js";
import type { Route } from "../http/route.js";
import { type EmbeddingBody, embeddingSchema } from "../schemas/texts.js";

export const embeddings: Route = {
  method: "post",
  path: "/v1/embeddings",
  summary: "Embed texts",
  body: embeddingSchema,
  handle: async (c) => {
    const body = await readJson(c, embeddingSchema, { takesLongTexts: true });
    const context = c.get("server");
    checkModel(context, body.model);
    return runTexts(c, "embd", async (options) => {
      const { vectors, promptTokens } = await context.engine.embed(inputsOf(body.input), {
        ...options,
        truncate: truncateOf(body),
        normalize: body.normalize ?? true,
        ...(body.pooling == null ? {} : { pooling: body.pooling }),
        ...(body.dimensions == null ? {} : { dimensions: body.dimensions }),
        ...(body.prompt_name == null ? {} : { promptName: body.prompt_name }),
        ...(body.input_type == null ? {} : { inputType: body.input_type }),
      });
      c.get("facts").promptTokens = promptTokens;
      const head = { object: "list", model: context.modelNames[0], usage: usageOf(promptTokens) };
      const written = body.encoding_format === "base64" ? base64 : numbersOf;
      const write = (vector: Float32Array, index: number): string =>
        `{"object":"embedding","index":${index},"embedding":${written(vector)}}`;
      return replyInPieces(c, head, [{ name: "data", parts: vectors, write }]);
    });
  },
};

function inputsOf(input: EmbeddingBody["input"]): readonly (string | readonly number[])[] {
  if (typeof input === "string") return [input];
  return typeof input[0] === "number" ? [input as number[]] : (input as (string | number[])[]);
}

/** Little-endian floats, as OpenAI's clients expect them. */
function base64(vector: Float32Array): string {
  return `"${Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString("base64")}"`;
}
