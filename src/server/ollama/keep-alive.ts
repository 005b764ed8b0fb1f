// keep_alive: how long a model stays in memory when nothing more is asked of it. A number of seconds, or a duration as Go writes them.

import type { Context } from "hono";
import { z } from "zod";
import type { AppEnv } from "../context.js";

const DURATION = /^[+-]?(\d+(\.\d+)?(h|m|s|ms|us|ns))+$/;
const SECONDS: Readonly<Record<string, number>> = { h: 3600, m: 60, s: 1, ms: 1e-3, us: 1e-6, ns: 1e-9 };

export const keepAliveField = z
  .union([z.number(), z.string().regex(/^[+-]?\d+$/), z.string().regex(DURATION, 'must be a duration such as "5m"')])
  .nullish()
  .meta({
    description: "Seconds or a duration; 0 lets the model go after the answer, below 0 never. Default: the server's.",
  });

export type KeepAlive = z.output<typeof keepAliveField>;

/** null: for ever; undefined: it was not said. */
export function secondsOf(keepAlive: KeepAlive): number | null | undefined {
  if (keepAlive == null) return undefined;
  const seconds =
    typeof keepAlive === "number" || /^[+-]?\d+$/.test(keepAlive) ? Number(keepAlive) : durationOf(keepAlive);
  return seconds < 0 ? null : seconds;
}

function durationOf(text: string): number {
  let seconds = 0;
  for (const [, number, , unit] of text.matchAll(/(\d+(\.\d+)?)(h|ms|us|ns|m|s)/g))
    seconds += Number(number) * SECONDS[unit!]!;
  return text.startsWith("-") ? -seconds : seconds;
}

/** The request's model stays as long as it asks for, where it has that to say: with several keys, an admin's has. */
export function keepModel(c: Context<AppEnv>, keepAlive: KeepAlive): void {
  const { engine, keys } = c.get("server");
  if (keys.size <= 1 || c.get("tenant").isAdmin) engine.sleepAfter(secondsOf(keepAlive));
}
