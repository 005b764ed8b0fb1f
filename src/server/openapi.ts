// GET /openapi.json: the routes and their zod schemas as an OpenAPI 3.1 document.

import { z } from "zod";
import { type Answers, anthropicError, type Described, ollamaError, openaiError } from "./answers/described.js";
import { OPENAI_ANSWERS } from "./answers/openai.js";
import { OTHER_ANSWERS } from "./answers/others.js";
import type { Route } from "./http/route.js";

/** By method and path: what routes answer. */
export const ANSWERS: Answers = { ...OPENAI_ANSWERS, ...OTHER_ANSWERS };

type Json = Record<string, unknown>;

export function openApiDocument(routes: readonly Route[], version: string): Json {
  const components = new Components();
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)(\{[^}]*\})?/g, "{$1}");
    paths[path] ??= {};
    paths[path][route.method] = operationOf(route, path, components);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Pagoda",
      version,
      description: "The APIs of OpenAI, Anthropic and Ollama over the models of one server.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/" }],
    paths,
    components: {
      securitySchemes: { key: { type: "http", scheme: "bearer" } },
      schemas: components.schemas,
    },
  };
}

/** Schemas with a name, once each. */
class Components {
  readonly schemas: Record<string, Json> = {};

  /** What has a name is a reference. */
  schemaOf(schema: z.ZodType): Json {
    const { $defs = {}, ...plain } = z.toJSONSchema(schema, {
      io: "input", // what is answered may have more fields one day: clients must not refuse them
      unrepresentable: "any",
    }) as Json & { $defs?: Record<string, Json> };
    delete plain.$schema;
    for (const [name, definition] of Object.entries($defs)) this.schemas[name] = relinked(definition);
    const { id, ...rest } = plain;
    if (typeof id !== "string") return relinked(rest);
    this.schemas[id] = relinked(rest);
    return { $ref: `#/components/schemas/${id}` };
  }
}

/** References into the document instead of into the schema. */
function relinked(schema: Json): Json {
  const text = JSON.stringify(schema, (key, value) => (key === "id" && typeof value === "string" ? undefined : value));
  return JSON.parse(text.replaceAll('"$ref":"#/$defs/', '"$ref":"#/components/schemas/')) as Json;
}

function operationOf(route: Route, path: string, components: Components): Json {
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
  const { answer, type = "application/json", event, isLines = false } = describedOf(route);
  const schemaOf = (schema: z.ZodType) => ({ schema: components.schemaOf(schema) });
  const content = {
    [type]: answer === undefined ? { schema: { type: "string" } } : schemaOf(answer),
    ...(event === undefined ? {} : { [isLines ? "application/x-ndjson" : "text/event-stream"]: schemaOf(event) }),
  };
  const failure = (description: string) => ({
    description,
    content: { "application/json": schemaOf(errorOf(route)) },
  });
  return {
    operationId: operationIdOf(route),
    summary: route.summary,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.isOpen === true ? { security: [] } : { security: [{ key: [] }, {}] }),
    ...(route.body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: { "application/json": { schema: components.schemaOf(route.body) } },
          },
        }),
    responses: {
      200: { description: "Success", content },
      "4XX": failure("The request cannot be answered as it is"),
      default: failure("The server cannot answer now"),
    },
  };
}

function describedOf({ method, path }: Route): Described {
  return ANSWERS[`${method} ${path}`] ?? {};
}

/** As each API writes them. */
function errorOf({ path, shapeError }: Route): z.ZodType {
  if (shapeError === undefined) return openaiError;
  return path.startsWith("/v1/messages") ? anthropicError : ollamaError;
}

/** "post /v1/chat/completions" is postV1ChatCompletions. */
function operationIdOf({ method, path }: Route): string {
  const words = path.replace(/\{[^}]*\}/g, "").split(/[^A-Za-z0-9]+/);
  return [method, ...words.filter((word) => word !== "").map((word) => word[0]!.toUpperCase() + word.slice(1))].join(
    "",
  );
}
