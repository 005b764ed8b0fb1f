// Schemas of other libraries: whatever speaks Standard Schema and Standard JSON Schema (zod, Valibot, ArkType), and plain JSON schemas.
// https://standardschema.dev

import { RequestError } from "../core/errors.js";

/** A schema of zod, Valibot (by toStandardJsonSchema), ArkType or any other library that speaks Standard Schema. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    readonly jsonSchema?: { readonly input: (options: { readonly target: "draft-2020-12" }) => object } | undefined;
  };
}

/** What a schema says of a value: the value it makes of it, or what is wrong with it. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** One thing that is wrong with a value. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** A plain JSON schema. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** A schema of a library, or plain JSON schema. */
export type Schema = StandardSchema | JsonSchema;

/** What a schema makes of a value; of a plain JSON schema nobody knows more than `Otherwise`. */
export type SchemaOutput<S, Otherwise = unknown> = S extends {
  readonly "~standard": { readonly types?: { readonly output: infer Output } | undefined };
}
  ? Output
  : Otherwise;

export function isStandard(schema: Schema): schema is StandardSchema {
  return "~standard" in schema;
}

/** The JSON schema of what the model writes. `param`: the field it came in. */
export async function jsonSchemaOf(schema: unknown, param: string): Promise<object> {
  const isObject = (typeof schema === "object" && schema !== null) || typeof schema === "function";
  if (!isObject) throw wrong(param, "it is no schema");
  if (!isStandard(schema as Schema)) return schema as object;
  const standard = (schema as StandardSchema)["~standard"];
  try {
    if (standard.jsonSchema !== undefined) return standard.jsonSchema.input({ target: "draft-2020-12" });
    if (standard.vendor === "zod") {
      const { toJSONSchema } = await import("zod"); // a hundred modules, for those who use it
      return toJSONSchema(schema as never, { io: "input" });
    }
  } catch (error) {
    throw wrong(param, (error as Error).message, error);
  }
  const hint = standard.vendor === "valibot" ? ": pass toStandardJsonSchema(schema) of @valibot/to-json-schema" : "";
  throw wrong(param, `${standard.vendor} gives no JSON schema of it${hint}`);
}

/** The schema's value of what was written; a plain JSON schema takes what the grammar let through. */
export async function checkValue(schema: Schema, value: unknown): Promise<SchemaResult<unknown>> {
  return isStandard(schema) ? schema["~standard"].validate(value) : { value };
}

/** Issues in words, one a line. */
export function issuesText(issues: readonly SchemaIssue[]): string {
  return issues
    .map(({ message, path = [] }) => {
      const place = path.map((step) => String(typeof step === "object" ? step.key : step)).join(".");
      return place === "" ? message : `${place}: ${message}`;
    })
    .join("\n");
}

function wrong(param: string, reason: string, cause?: unknown): RequestError {
  return new RequestError("invalid_schema", { param, path: "#", reason }, { cause });
}
