// Long bodies are parsed in a thread of their own, clients in turns. What the server's thread gets back is copied to it, which takes a
// fraction of what parsing and checking it takes; of a body that is refused it gets the error alone.

import { Worker } from "node:worker_threads";
import type { z } from "zod";
import { RequestError } from "../../core/errors.js";
import { type Asker, TaskThread } from "../../threads/task-thread.js";
import { BODIES } from "../schemas/bodies.js";
import { ApiError } from "./api-error.js";
import type { Leftover } from "./known-fields.js";

export interface BodyTask {
  /** Its name in the table. */
  readonly schema: keyof typeof BODIES;
  readonly bytes: Uint8Array;
  readonly isStrict: boolean;
}

/** What is wrong with the body, as its client is told. */
export interface BodyFault {
  readonly code: ApiError["code"];
  readonly message: string;
  readonly param: string | null;
}

export type ParsedBody = Leftover<unknown> | { readonly fault: BodyFault };

/** 64 MiB with pictures in them take a second or two on a busy machine. */
const LIMITS = { taskMs: 30_000, memoryMb: 2048 };

export class BodyThread {
  readonly #thread = new TaskThread<BodyTask, ParsedBody>({
    start: (resourceLimits) =>
      new Worker(new URL("./body-worker.js", import.meta.url), { execArgv: [], resourceLimits }),
    memoryMb: LIMITS.memoryMb,
    limitMs: () => LIMITS.taskMs,
    failure: (_, reason) => new RequestError("text_failed", { reason }),
  });

  /** `bytes` are moved to the thread. Throws what `parseBody` does. */
  async parse(schema: z.ZodType, bytes: Buffer, isStrict: boolean, asker: Asker): Promise<Leftover<unknown>> {
    const name = nameOf(schema);
    if (name === undefined) {
      const message = `The body has ${bytes.length} bytes, and no request of this kind needs as many. Send less.`;
      throw new ApiError("body_too_large", message);
    }
    const parsed = await this.#thread.run({ schema: name, bytes, isStrict }, asker, [bytes.buffer as ArrayBuffer]);
    if (!("fault" in parsed)) return parsed;
    const { code, message, param } = parsed.fault;
    throw new ApiError(code, message, { param });
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

function nameOf(schema: z.ZodType): keyof typeof BODIES | undefined {
  return (Object.keys(BODIES) as (keyof typeof BODIES)[]).find((name) => BODIES[name] === schema);
}
