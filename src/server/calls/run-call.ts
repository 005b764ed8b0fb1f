// One call from its place in the queue to its answer, whole or streamed, for every API alike.

import type { Context } from "hono";
import type { AppEnv } from "../context.js";
import type { ServerEvent } from "../http/sse.js";
import type { Call } from "./call.js";
import { type StreamForm, streamCall } from "./stream-call.js";

export interface Reply {
  whole(): Promise<unknown>;
  events(): AsyncGenerator<ServerEvent>;
}

export interface RunOptions {
  /** Lower goes first; left out: 0. */
  readonly priority?: number | null | undefined;
  readonly isStream: boolean;
  readonly form?: StreamForm;
}

/** `start` asks the engine; called once there is room. */
export async function runCall(
  c: Context<AppEnv>,
  call: Call,
  { priority, isStream, form }: RunOptions,
  start: () => Reply,
): Promise<Response> {
  await call.enter(priority ?? 0);
  try {
    const reply = start();
    if (isStream) return await streamCall(c, call, reply.events(), form);
    const whole = await reply.whole();
    call.end();
    return c.json(whole as Record<string, unknown>);
  } catch (error) {
    call.leave(); // whatever still runs for it need not go on
    throw error;
  }
}
