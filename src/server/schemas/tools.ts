// What the tools of all APIs have in common.

import { z } from "zod";

export const MAX_TOOLS = 1024;

export const toolName = z
  .string()
  .regex(/^[\w.-]{1,128}$/, "must be 1 to 128 letters, digits, dots, dashes or underscores");

/**
 * A tool of another type than a function: one that the API's own provider runs (a search, an interpreter), or a form that models here are
 * not shown. Agents offer them unasked; they are left out, and named in the log.
 */
export function hostedTool(own: readonly string[]) {
  return z.looseObject({
    type: z.string().refine((type) => !own.includes(type), "its fields are those of a function"),
  });
}
export type HostedTool = z.output<ReturnType<typeof hostedTool>>;
