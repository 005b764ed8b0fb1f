// The border of a member: what others say to it has the shape that wire.ts gives, or is dropped. A message says what it is; whether a request makes
// sense is checked by the engine, as for any caller.

import type { ToReplica, ToRouter } from "./wire.js";

export type Check = (value: unknown) => boolean;
type Shape = Readonly<Record<string, Check>>;

export const text: Check = (value) => typeof value === "string";
export const number: Check = (value) => typeof value === "number";
export const object: Check = (value) => typeof value === "object" && value !== null;
export const list =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
export const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
export const maybe =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
export const shaped =
  (shape: Shape): Check =>
  (value) =>
    object(value) && fits(value as Record<string, unknown>, shape);

const TO_REPLICA: Readonly<Record<ToReplica["type"], Shape>> = {
  add: {
    id: text,
    kind: text,
    prompt: list(number),
    sampling: object,
    priority: number,
    salt: text,
    client: maybe(text),
    leaseMs: number,
    constraint: orNull(object),
    speculation: maybe(object),
    adapter: maybe(shaped({ name: text, identity: text, scale: number })),
    peer: maybe(text),
    resumed: orNull(shaped({ index: number, tokens: list(number) })),
  },
  abort: { id: text, index: number },
  open: { ids: list(text), leaseMs: number },
  prefixes: {},
  lend: { id: text, identity: text, prompt: list(number), salt: text, firstPage: number },
  lent: { id: text, url: orNull(text) },
  offer: { identity: text, url: text },
};

const OUTPUT: Shape = {
  id: text,
  index: maybe(number),
  at: number,
  tokens: maybe(list(number)),
  logprobs: maybe(list(list(orNull(number)))),
  finishReason: maybe(text),
  stopToken: maybe(number),
  isLoop: maybe((value) => value === true),
  promptLogprobs: maybe(list(orNull(list(orNull(number))))),
  vector: maybe(text),
  trace: maybe(object),
  error: maybe(shaped({ code: text, details: object })),
};

const TO_ROUTER: Readonly<Record<ToRouter["type"], Shape>> = {
  outputs: { outputs: list(shaped(OUTPUT)) },
  gone: { ids: list(text) },
  prefixes: { epoch: number, seq: number, isSnapshot: (value) => typeof value === "boolean", changes: text },
};

export function isToReplica(message: object): message is ToReplica {
  return isOneOf(message, TO_REPLICA);
}

export function isToRouter(message: object): message is ToRouter {
  return isOneOf(message, TO_ROUTER);
}

function isOneOf(message: object, shapes: Readonly<Record<string, Shape>>): boolean {
  const { type } = message as { type?: unknown };
  return (
    typeof type === "string" && Object.hasOwn(shapes, type) && fits(message as Record<string, unknown>, shapes[type]!)
  );
}

function fits(value: Readonly<Record<string, unknown>>, shape: Shape): boolean {
  for (const key in shape) if (!shape[key]!(value[key])) return false;
  return true;
}
