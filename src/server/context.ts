// What every route of a server shares.

import type { HttpBindings } from "@hono/node-server";
import type { ChatForm } from "../chat/chat-form.js";
import type { ServerConfig } from "../config/server-config.js";
import type { ServedEngine } from "../engine/served-engine.js";
import type { BatchRoom } from "./batch/batch-room.js";
import type { Call } from "./calls/call.js";
import type { Owners } from "./dashboard/owners.js";
import type { KeyRing, Tenant } from "./http/auth.js";
import type { BodyThread } from "./http/body-thread.js";
import type { Gate } from "./http/gate.js";
import type { Logger } from "./http/logger.js";
import type { SeenFields } from "./http/seen-fields.js";
import type { ServerMetrics } from "./metrics/metrics.js";
import type { Span, Tracer } from "./metrics/tracer.js";
import type { ModelHouse } from "./models/model-house.js";
import type { ResponseStore } from "./openai/response-store.js";

export interface ServerContext {
  readonly engine: ServedEngine;
  readonly config: ServerConfig;
  readonly keys: KeyRing;
  readonly gate: Gate;
  readonly bodies: BodyThread;
  /** Those in the engine now, or on their way. */
  readonly calls: Set<Call>;
  readonly owners: Owners;
  readonly responses: ResponseStore;
  /** null: no folder for them was named. */
  readonly batches: BatchRoom | null;
  /** Unknown fields that the log has named. */
  readonly seenFields: SeenFields;
  /** All models of the server; this context is one's. */
  readonly house: ModelHouse;
  readonly metrics: ServerMetrics;
  /** null: no collector was named. */
  readonly tracer: Tracer | null;
  readonly log: Logger;
  /** How the model writes calls and thoughts, and where it is told of tools. */
  readonly form: ChatForm;
  /** The adapter that the request's model names; null: the model itself. */
  readonly adapter: string | null;
  /** Names clients may ask for; the first is the one that answers carry. */
  readonly modelNames: readonly string[];
  readonly startedMs: number;
  readonly version: string;
}

/** Hono's variables of one request. */
export interface AppEnv {
  /** Of Node's own server, where there is one; whose batch it is a line of, where it is one. */
  Bindings: Partial<HttpBindings> & { readonly batchOf?: Tenant };
  Variables: {
    server: ServerContext;
    tenant: Tenant;
    log: Logger;
    /** null: nobody is told of it. */
    span: Span | null;
    /** Where it comes from, as far as that is known. */
    address: string;
    /** Added to the line that is logged when the request is over. */
    facts: Record<string, unknown>;
  };
}
