// POST /tokenize and /detokenize

import type { z } from "zod";
import type { PromptOptions } from "../../engine/served-engine.js";
import { checkModel, toChatMessages, tokenizeChat } from "../calls/prompt.js";
import { ApiError } from "../http/api-error.js";
import { clientOf } from "../http/auth.js";
import { readJson } from "../http/body.js";
import { NUMBERS_A_TURN, replyInPieces } from "../http/long-reply.js";
import type { Route } from "../http/route.js";
import { detokenizeSchema, tokenizeSchema } from "../schemas/others.js";

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

export const tokenize: Route = {
  method: "post",
  path: "/tokenize",
  summary: "The tokens of a text or a conversation",
  body: tokenizeSchema,
  handle: async (c) => {
    const body = await readJson(c, tokenizeSchema, { takesLongTexts: true, takesImages: true });
    const context = c.get("server");
    const { engine } = context;
    checkModel(context, body.model);
    if ((body.prompt === undefined) === (body.messages === undefined))
      throw new ApiError("invalid_value", "Give either prompt or messages.", { param: "prompt" });
    const tokens =
      body.messages !== undefined
        ? (await tokenizeChat(c, toChatMessages(body.messages), templateOf(body), { isCounted: true })).ids
        : await engine.tokenizeAside(
            body.prompt!,
            body.add_special_tokens == null ? {} : { addSpecialTokens: body.add_special_tokens },
            c.req.raw.signal,
            clientOf(c),
          );
    const parts: (readonly number[])[] = [];
    for (let i = 0; i < tokens.length; i += NUMBERS_A_TURN) parts.push(tokens.slice(i, i + NUMBERS_A_TURN));
    const write = (part: readonly number[]): string => part.join();
    const stringOf = (id: number): string => JSON.stringify(utf8.decode(engine.tokenizer.bytes(id)));
    const fields = [{ name: "tokens", parts, write }];
    if (body.return_token_strs === true)
      fields.push({ name: "token_strs", parts, write: (part) => part.map(stringOf).join() });
    return replyInPieces(c, { count: tokens.length, max_model_len: engine.model.maxContext }, fields);
  },
};

function templateOf({ tools, chat_template_kwargs }: z.output<typeof tokenizeSchema>): PromptOptions {
  return {
    ...(tools == null ? {} : { tools }),
    ...(chat_template_kwargs == null ? {} : { templateArgs: chat_template_kwargs }),
  };
}

export const detokenize: Route = {
  method: "post",
  path: "/detokenize",
  summary: "The text of tokens",
  body: detokenizeSchema,
  handle: async (c) => {
    const body = await readJson(c, detokenizeSchema);
    const context = c.get("server");
    checkModel(context, body.model);
    const { vocabSize } = context.engine.model;
    const index = body.tokens.findIndex((id) => id >= vocabSize);
    if (index >= 0) {
      const message = `Token id ${body.tokens[index]} at index ${index} is outside the vocabulary 0..${vocabSize - 1}.`;
      throw new ApiError("token_out_of_range", message, { param: "tokens" });
    }
    return c.json({ prompt: context.engine.tokenizer.decode(body.tokens) });
  },
};
