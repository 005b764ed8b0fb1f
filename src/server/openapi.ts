// GET /openapi.json: the routes and their zod schemas as an OpenAPI 3.1 document.

import { z } from "zod";
import type { Route } from "./http/route.js";

export function openApiDocument(routes: readonly Route[], version: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)(\{[^}]*\})?/g, "{$1}");
    paths[path] ??= {};
    paths[path][route.method] = operationOf(route, path);
  }
  return {
    openapi: "3.1.0",
    info: { title: "Pagoda", version, description: "An OpenAI-compatible API over one model." },
    paths,
    components: {
      securitySchemes: { key: { type: "http", scheme: "bearer" } },
      schemas: { Error: ERROR_SCHEMA },
    },
  };
}

const ERROR_SCHEMA = {
  type: "object",
  properties: {
    error: {
      type: "object",
      properties: {
        message: { type: "string" },
        type: { type: "string" },
        param: { type: ["string", "null"] },
        code: { type: ["string", "null"] },
      },
      required: ["message", "type", "param", "code"],
    },
  },
  required: ["error"],
};

function operationOf(route: Route, path: string): Record<string, unknown> {
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
  const content = {
    [route.path === "/metrics" ? "text/plain" : "application/json"]: {},
    ...(route.canStream === true ? { "text/event-stream": {} } : {}),
  };
  return {
    summary: route.summary,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.isOpen === true ? { security: [] } : { security: [{ key: [] }, {}] }),
    ...(route.body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: {
              "application/json": { schema: z.toJSONSchema(route.body, { io: "input", unrepresentable: "any" }) },
            },
          },
        }),
    responses: {
      200: { description: "Success", content },
      default: {
        description: "An error in OpenAI's shape",
        content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
      },
    },
  };
}
