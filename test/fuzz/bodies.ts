// Request bodies from a server's own description: values that fit a route's schema, then most of them made wrong somewhere. A seed
// gives the same request every time.

import { request as httpRequest } from "node:http";
import { seeded } from "../support/byte-matcher.js";
import { mutateText, mutateValue, pick, type Random } from "./mutate.js";

type Schema = Record<string, unknown>;

export interface FuzzRoute {
  readonly path: string;
  readonly schema: Schema;
}

export interface FuzzRequest {
  readonly path: string;
  readonly body: string;
}

export async function routesOf(url: string): Promise<FuzzRoute[]> {
  const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as {
    paths: Record<string, { post?: { requestBody?: { content: Record<string, { schema: Schema }> } } }>;
  };
  return Object.entries(paths).flatMap(([path, { post }]) => {
    const schema = post?.requestBody?.content["application/json"]?.schema;
    return schema === undefined ? [] : [{ path, schema }];
  });
}

export function requestOf(routes: readonly FuzzRoute[], seed: number): FuzzRequest {
  const random = seeded(seed);
  const { path, schema } = pick(random, routes);
  let value = fitting(schema, random, 0);
  if (random() < 0.2) return { path, body: JSON.stringify(value) };
  for (let i = 0; i < 1 + random() * 2; i++) value = mutateValue(value, random);
  const body = JSON.stringify(value) ?? "";
  return { path, body: random() < 0.2 ? mutateText(body, random) : body };
}

/** A value that fits the schema; of optional properties, some. */
function fitting(schema: Schema, random: Random, depth: number): unknown {
  if (schema.const !== undefined) return schema.const;
  if (Array.isArray(schema.enum)) return pick(random, schema.enum);
  const choices = (schema.anyOf ?? schema.oneOf) as Schema[] | undefined;
  if (choices !== undefined) return fitting(pick(random, choices), random, depth);
  switch (schema.type) {
    case "object":
      return objectOf(schema, random, depth);
    case "array": {
      const count = Math.max(Number(schema.minItems ?? 0), depth > 5 ? 0 : Math.floor(random() * 3));
      return Array.from({ length: count }, () => fitting((schema.items as Schema) ?? {}, random, depth + 1));
    }
    case "string":
      return pick(random, ["a", "hello there", "7", "[ab]{2}", 'root ::= "a"', '{"type":"integer"}', "user"]);
    case "integer":
      return Math.floor(numberOf(schema, random));
    case "number":
      return numberOf(schema, random);
    case "boolean":
      return random() < 0.5;
    case "null":
      return null;
    default:
      return pick(random, [1, "x", null, { type: "object" }]);
  }
}

function objectOf(schema: Schema, random: Random, depth: number): Record<string, unknown> {
  const required = (schema.required ?? []) as string[];
  const entries = Object.entries((schema.properties ?? {}) as Record<string, Schema>);
  const taken = entries.filter(([name]) => required.includes(name) || random() < (depth === 0 ? 0.15 : 0.4));
  const known = taken.map(([name, inner]) => [name, fitting(inner, random, depth + 1)] as const);
  const isOpen = entries.length === 0 && random() < 0.7;
  return Object.fromEntries(isOpen ? [["type", pick(random, ["object", "integer", "string", "array"])]] : known);
}

function numberOf({ minimum, maximum }: Schema, random: Random): number {
  const low = Math.max(Number(minimum ?? 0), -1000);
  const high = Math.min(Number(maximum ?? low + 4), low + 4); // small: what is generated takes time
  return low + random() * Math.max(0, high - low);
}

/** What is wrong with the server's reply; null when nothing is. A connection that breaks off is wrong too. */
export async function tryRequest(url: string, request: FuzzRequest, limitMs: number): Promise<string | null> {
  try {
    const { status, text } = await post(url, request, limitMs);
    if (status >= 500) return `status ${status}: ${text}`;
    if (status === 200) return null;
    return status >= 400 && "error" in JSON.parse(text) ? null : `status ${status}: ${text}`;
  } catch (error) {
    return String(error);
  }
}

/** A connection of its own for each request: one that is kept may be closed, rightly, just as it is used again. */
function post(url: string, { path, body }: FuzzRequest, limitMs: number): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const signal = AbortSignal.timeout(limitMs);
    const sent = httpRequest(url + path, { method: "POST", agent: false, headers, signal }, (reply) => {
      let text = "";
      reply.setEncoding("utf8");
      reply.on("data", (piece: string) => {
        text += piece;
      });
      reply.on("end", () => resolve({ status: reply.statusCode!, text }));
      reply.on("error", reject);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
