// What the page at / watches: stats, steps as they happen, the page map with the prefixes, the plan of a step. docs/reference/server-api.md.

import type { Context } from "hono";
import type { CachePicture, Engine, StepRecord } from "../../engine/types.js";
import type { AppEnv, ServerContext } from "../context.js";
import { ApiError } from "../http/api-error.js";
import type { Tenant } from "../http/auth.js";
import type { Route } from "../http/route.js";
import { type ServerEvent, sseResponse } from "../http/sse.js";

export const stats: Route = {
  method: "get",
  path: "/api/stats",
  summary: "Engine and server at a glance",
  handle: async (c) => {
    const { engine, gate, config, metrics, startedMs, version } = watched(c);
    const { lastError, ...state } = engine.health();
    const health = { ...state, lastError: c.get("tenant").isAdmin ? lastError : null };
    return c.json({
      model: engine.model,
      health,
      engine: health.state === "ready" ? await engine.stats() : null,
      server: {
        version,
        startedMs,
        isDraining: gate.isDraining,
        active: gate.active,
        queued: gate.queued,
        maxConcurrent: config.maxConcurrent,
        maxQueued: config.maxQueued,
        ttftMs: metrics.ttft,
      },
    });
  },
};

export const steps: Route = {
  method: "get",
  path: "/api/steps",
  isLook: true,
  summary: "The last thousand steps, then each new one as an event",
  canStream: true,
  handle: (c) => {
    const context = watched(c);
    const tenant = c.get("tenant");
    if (c.req.query("format") === "json")
      return c.json(context.engine.inspect.history().map((step) => seenBy(context, tenant, step)));
    const leave = new AbortController();
    c.req.raw.signal.addEventListener("abort", () => leave.abort());
    return sseResponse(c, stepEvents(context, tenant, leave.signal), { leave: () => leave.abort() });
  },
};

async function* stepEvents(context: ServerContext, tenant: Tenant, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const { engine } = context;
  const source = engine.inspect.steps({ signal })[Symbol.asyncIterator]();
  const first = source.next(); // follow before the history is taken, so that no step falls between
  yield { event: "history", data: engine.inspect.history().map((step) => seenBy(context, tenant, step)) };
  for (let next = await first; next.done !== true; next = await source.next())
    yield { event: "step", data: seenBy(context, tenant, next.value) };
}

/** The step with the names of others' requests left out: how full it was is everybody's to know, who was in it is not. */
function seenBy({ owners }: ServerContext, tenant: Tenant, step: StepRecord): StepRecord {
  if (tenant.isAdmin) return step;
  const idOf = (id: string): string => (owners.isOf(id, tenant) ? id : "");
  return { ...step, rows: step.rows.map((row) => ({ ...row, id: idOf(row.id) })), preempted: step.preempted.map(idOf) };
}

export const cache: Route = {
  method: "get",
  path: "/api/cache",
  isLook: true,
  summary: "The page map and the cached prefixes",
  handle: async (c) => {
    const { engine, owners } = requireEngine(watched(c));
    const tenant = c.get("tenant");
    const picture = await snapshotOf(engine);
    // One tenant must not read the prompts of another, nor see who they are.
    if (!tenant.isAdmin) {
      const nodes = picture.nodes.map((node) => ({ ...node, tokens: [] }));
      const requests = picture.requests.filter(({ id }) => owners.isOf(id, tenant));
      return c.json({ ...picture, nodes, requests });
    }
    const nodes = picture.nodes.map((node) => ({ ...node, text: engine.tokenizer.decode(node.tokens) }));
    return c.json({ ...picture, nodes });
  },
};

const SNAPSHOT_MS = 250;
const snapshots = new WeakMap<Engine, { readonly atMs: number; readonly picture: Promise<CachePicture> }>();

/** One picture does for all who ask within a quarter of a second: it holds up the engine for a moment. */
function snapshotOf(engine: Engine): Promise<CachePicture> {
  const nowMs = performance.now();
  const last = snapshots.get(engine);
  if (last !== undefined && nowMs - last.atMs < SNAPSHOT_MS) return last.picture;
  const picture = engine.inspect.cache();
  snapshots.set(engine, { atMs: nowMs, picture });
  return picture;
}

export const plan: Route = {
  method: "get",
  path: "/api/plan/:step",
  isLook: true,
  summary: "How attention was planned in a step",
  handle: async (c) => {
    const { engine } = requireEngine(watched(c));
    const text = c.req.param("step")!;
    const plans = /^\d{1,15}$/.test(text) ? await engine.inspect.plan(Number(text)) : null;
    if (plans === null) throw new ApiError("step_not_found", `Step ${text} is not among the last thousand.`);
    return c.json(plans);
  },
};

/** The model that is looked at: `?model=NAME`, or the first. Looking loads none. */
function watched(c: Context<AppEnv>): ServerContext {
  const { house } = c.get("server");
  const name = c.req.query("model");
  if (name === undefined) return c.get("server");
  const context = house.loaded.find(({ modelNames }) => modelNames.includes(name));
  if (context !== undefined) return context;
  const quoted = JSON.stringify(name);
  throw house.names.includes(name)
    ? new ApiError("model_unavailable", `The model ${quoted} is not loaded: the first request that names it loads it.`)
    : new ApiError("model_not_found", `The model ${quoted} is not served here.`, { param: "model" });
}

function requireEngine(context: ServerContext): ServerContext {
  const { state } = context.engine.health();
  if (state !== "ready")
    throw new ApiError("engine_not_ready", `The engine is ${state}.`, { headers: { "retry-after": "1" } });
  return context;
}
