// The folder of --batch-dir: files, and the batches that read them.

import { join } from "node:path";
import type { Hono } from "hono";
import type { ServerConfig } from "../../config/server-config.js";
import type { AppEnv } from "../context.js";
import type { KeyRing } from "../http/auth.js";
import { Gate } from "../http/gate.js";
import type { Logger } from "../http/logger.js";
import { askLine } from "./ask-line.js";
import { Batches } from "./batches.js";
import { FileStore } from "./file-store.js";

export interface BatchRoom {
  readonly files: FileStore;
  readonly batches: Batches;
}

type RoomConfig = Pick<ServerConfig, "batchDir" | "batchDiskMb" | "maxConcurrent" | "maxBodyMb" | "maxImageBodyMb">;

/** null: no folder was named. Batches that were interrupted go on, if their keys are still in the ring. */
export function openBatchRoom(config: RoomConfig, app: Hono<AppEnv>, keys: KeyRing, log: Logger): BatchRoom | null {
  const { batchDir, batchDiskMb, maxConcurrent, maxBodyMb, maxImageBodyMb } = config;
  if (batchDir === null) return null;
  const files = new FileStore(join(batchDir, "files"), batchDiskMb * 2 ** 20);
  const batches = new Batches({
    folder: join(batchDir, "batches"),
    files,
    // The other half of the engine's places is everybody else's.
    gate: new Gate({ maxConcurrent: Math.ceil(maxConcurrent / 2), maxQueued: Number.POSITIVE_INFINITY }),
    log,
    maxLineBytes: Math.max(maxBodyMb, maxImageBodyMb) * 2 ** 20,
    ask: (line, tenant, signal) => askLine(app, line, tenant, signal),
    holderOf: (salt) => keys.holderOf(salt),
  });
  batches.resume();
  return { files, batches };
}
