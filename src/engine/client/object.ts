// Typed values out of a model: a zod schema goes in, a value that it accepts comes out. The answer is constrained while it is
// written, so that it parses; zod then checks what a grammar cannot (refinements) and transforms.

import type { z } from "zod";
import { RequestError } from "../../core/errors.js";
import type { ChatMessage, Engine, GenerateOptions, GenerateResult, TemplateOptions } from "../types.js";

/** What `engine.object` takes: a zod schema, a prompt or messages, and sampling parameters. */
export interface ObjectRequest<Schema extends z.ZodType>
  extends Omit<GenerateOptions, "constraint" | "n">,
    TemplateOptions {
  readonly schema: Schema;
  /** A text to continue, or messages to answer: one of the two. */
  readonly prompt?: string | readonly number[];
  readonly messages?: readonly ChatMessage[];
}

/** A value that the schema accepts, and the answer it was read from. */
export interface ObjectResult<Value> {
  readonly object: Value;
  /** The answer as it was written, with its trace. */
  readonly result: GenerateResult;
}

export async function generateObject<Schema extends z.ZodType>(
  engine: Engine,
  request: ObjectRequest<Schema>,
): Promise<ObjectResult<z.output<Schema>>> {
  const { schema, prompt, messages, tools, templateArgs, ...options } = request;
  if ((prompt === undefined) === (messages === undefined)) {
    throw new RequestError("invalid_value", {
      param: "prompt",
      value: "both or none of prompt and messages",
      expected: "one of them",
    });
  }
  const { prettifyError, toJSONSchema } = await import("zod"); // a hundred modules, for those who use it
  const source = JSON.stringify(toJSONSchema(schema, { io: "input" }));
  const constraint = { kind: "json_schema", source, param: "schema" } as const;
  const template = {
    ...(tools === undefined ? {} : { tools }),
    ...(templateArgs === undefined ? {} : { templateArgs }),
  };
  const generation =
    messages !== undefined
      ? engine.chat(messages, { ...options, ...template, constraint })
      : engine.generate(prompt!, { ...options, constraint });
  const result = await generation.result();
  const [sample] = result.samples;
  if (sample!.finishReason !== "stop") throw new RequestError("object_cut", { value: sample!.tokenIds.length });
  const parsed = schema.safeParse(JSON.parse(result.text));
  if (!parsed.success)
    throw new RequestError("object_invalid", { reason: prettifyError(parsed.error) }, { cause: parsed.error });
  return { object: parsed.data, result };
}
