// Typed values out of a model: a schema goes in, a value that it accepts comes out. The answer is constrained while it is written, so that
// it parses; the schema then checks what a grammar cannot (refinements) and transforms.

import { checkValue, issuesText, jsonSchemaOf, type Schema, type SchemaOutput } from "../../chat/schema.js";
import { RequestError } from "../../core/errors.js";
import type { ObjectRequest, ObjectResult } from "../chat-types.js";
import type { Engine } from "../types.js";

export async function generateObject<S extends Schema>(
  engine: Pick<Engine, "chat" | "generate">,
  request: ObjectRequest<S>,
): Promise<ObjectResult<SchemaOutput<S>>> {
  const { schema, prompt, messages, thinkingBudget, templateArgs, continueFinalMessage, ...options } = request;
  if ((prompt === undefined) === (messages === undefined)) {
    throw new RequestError("invalid_value", {
      param: "prompt",
      value: prompt === undefined ? "omitted, like messages" : "given, like messages",
      expected: "given, or messages: one of the two",
    });
  }
  const source = JSON.stringify(await jsonSchemaOf(schema, "schema"));
  const asked = { ...options, constraint: { kind: "json_schema", source, param: "schema" } as const };
  const template = {
    ...(thinkingBudget === undefined ? {} : { thinkingBudget }),
    ...(templateArgs === undefined ? {} : { templateArgs }),
    ...(continueFinalMessage === undefined ? {} : { continueFinalMessage }),
  };
  const { text, finishReason, usage, trace } =
    messages === undefined
      ? await continued(engine, prompt!, asked)
      : await engine.chat(messages, { ...asked, ...template });
  if (finishReason !== "stop") throw new RequestError("object_cut", { value: usage.completionTokens });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    // A stop string of the caller's ended it.
    throw new RequestError("object_cut", { value: usage.completionTokens }, { cause: error });
  }
  const checked = await checkValue(schema, value);
  if (checked.issues !== undefined)
    throw new RequestError("object_invalid", { reason: issuesText(checked.issues) }, { cause: checked.issues });
  return { object: checked.value as SchemaOutput<S>, text, usage, trace };
}

async function continued(
  engine: Pick<Engine, "generate">,
  prompt: string | readonly number[],
  options: Parameters<Engine["generate"]>[1],
) {
  const { text, samples, trace } = await engine.generate(prompt, options);
  const { promptTokens, completionTokens, cachedTokens } = trace;
  const usage = { promptTokens, completionTokens, cachedTokens, reasoningTokens: 0 };
  return { text, finishReason: samples[0]!.finishReason, usage, trace };
}
