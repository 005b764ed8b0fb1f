// POST /v1/rerank (and /rerank, /v2/rerank) as Cohere's, Jina's and vLLM's clients have it; POST /v1/score as vLLM has it.

import type { Context } from "hono";
import { checkModel } from "../calls/prompt.js";
import { runTexts, truncateOf, usageOf } from "../calls/text-call.js";
import type { AppEnv } from "../context.js";
import { ApiError } from "../http/api-error.js";
import { readJson } from "../http/body.js";
import type { Route } from "../http/route.js";
import { rerankSchema, type ScoreBody, scoreSchema } from "../schemas/texts.js";

const rerankAt = (path: string): Route => ({
  method: "post",
  path,
  summary: "Sort documents by how well they answer a query",
  body: rerankSchema,
  handle: rank,
});

export const rerankRoutes: readonly Route[] = ["/v1/rerank", "/v2/rerank", "/rerank"].map(rerankAt);

async function rank(c: Context<AppEnv>): Promise<Response> {
  const body = await readJson(c, rerankSchema, { takesLongTexts: true });
  const context = c.get("server");
  checkModel(context, body.model);
  const documents = body.documents.map((document) => (typeof document === "string" ? document : document.text));
  // Cohere's second version has no texts in its answers; the others have, unless told otherwise.
  const isSecond = c.req.path === "/v2/rerank";
  const hasDocuments = body.return_documents ?? !isSecond;
  return runTexts(c, "rerank", async (options, call) => {
    const { results, promptTokens } = await context.engine.rerank(body.query, documents, {
      ...options,
      truncate: truncateOf(body),
      raw: body.use_activation === false,
      ...(body.instruction == null ? {} : { instruction: body.instruction }),
      ...(body.top_n == null || body.top_n === 0 ? {} : { topN: body.top_n }),
    });
    c.get("facts").promptTokens = promptTokens;
    return c.json({
      id: call.id,
      object: "list",
      model: context.modelNames[0],
      results: results.map(({ index, score, document }) => ({
        index,
        relevance_score: score,
        ...(hasDocuments ? { document: { text: document } } : {}),
      })),
      usage: usageOf(promptTokens),
      meta: {
        api_version: { version: isSecond ? "2" : "1" },
        billed_units: { search_units: 1 },
        tokens: { input_tokens: promptTokens },
      },
    });
  });
}

export const score: Route = {
  method: "post",
  path: "/v1/score",
  summary: "Score pairs of texts",
  body: scoreSchema,
  handle: async (c) => {
    const body = await readJson(c, scoreSchema, { takesLongTexts: true });
    const context = c.get("server");
    checkModel(context, body.model);
    const pairs = pairsOf(body);
    return runTexts(c, "score", async (options, call) => {
      const { scores, promptTokens } = await context.engine.score(pairs, {
        ...options,
        truncate: truncateOf(body),
        raw: body.use_activation === false,
        ...(body.instruction == null ? {} : { instruction: body.instruction }),
      });
      c.get("facts").promptTokens = promptTokens;
      return c.json({
        id: call.id,
        object: "list",
        created: call.createdSeconds,
        model: context.modelNames[0],
        data: scores.map((value, index) => ({ index, object: "score", score: value })),
        usage: { ...usageOf(promptTokens), completion_tokens: 0 },
      });
    });
  },
};

/** One text with each of several, or two lists text by text. */
function pairsOf({ text_1, text_2 }: ScoreBody): (readonly [string, string])[] {
  const first = [text_1].flat();
  const second = [text_2].flat();
  if (first.length === 1) return second.map((text) => [first[0]!, text] as const);
  if (first.length === second.length) return first.map((text, i) => [text, second[i]!] as const);
  const message = `text_1 has ${first.length} texts and text_2 ${second.length}: give one, or as many in both.`;
  throw new ApiError("invalid_value", message, { param: "text_2" });
}
