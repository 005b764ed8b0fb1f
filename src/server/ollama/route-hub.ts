// Ollama's API: fetching a model from the hub, and deleting it. Both change what the server's disk holds: only where the operator allowed
// it (hubModels), and with API keys for admins only.

import { setTimeout as sleep } from "node:timers/promises";
import type { Context } from "hono";
import { z } from "zod";
import { findInCache, hubCachePath } from "../../formats/hub/hub-cache.js";
import { removeModel } from "../../formats/hub/hub-remove.js";
import { parseHubSpec } from "../../formats/hub/hub-spec.js";
import { pullModel } from "../../formats/hub/models.js";
import type { AppEnv } from "../context.js";
import { ApiError, toHttpError } from "../http/api-error.js";
import { readJson } from "../http/body.js";
import type { Route } from "../http/route.js";
import { type ServerEvent, sseResponse } from "../http/sse.js";
import { shapeError } from "./form.js";

const named = { model: z.string().max(400).optional(), name: z.string().max(400).optional() };
const pullSchema = z.strictObject({ ...named, stream: z.boolean().nullish(), insecure: z.unknown().optional() });
const deleteSchema = z.strictObject(named);

const PROGRESS_MS = 200;

export const ollamaPull: Route = {
  method: "post",
  path: "/api/pull",
  summary: "Fetch a model from the hub (Ollama's API)",
  body: pullSchema,
  canStream: true,
  shapeError,
  handle: async (c) => {
    const body = await readJson(c, pullSchema, { loads: false });
    const model = allowedModel(c, body);
    const { house, log } = c.get("server");
    const left = new AbortController();
    const fetched = async (onProgress?: (done: number, total: number, file: string) => void): Promise<void> => {
      await pullModel(model, { signal: left.signal, onProgress });
      house.add(model);
      log.info({ model }, "a model was fetched");
    };
    if (body.stream === false) {
      c.req.raw.signal.addEventListener("abort", () => left.abort());
      await fetched();
      return c.json({ status: "success" });
    }
    const failed = (error: unknown): ServerEvent => ({
      data: shapeError(toHttpError(error, c.get("tenant").isAdmin)),
    });
    return sseResponse(c, progress(fetched), { isLines: true, leave: () => left.abort(), failed });
  },
};

export const ollamaDelete: Route = {
  method: "delete",
  path: "/api/delete",
  summary: "Delete a model of the hub's cache (Ollama's API)",
  body: deleteSchema,
  shapeError,
  handle: async (c) => {
    const model = allowedModel(c, await readJson(c, deleteSchema, { loads: false }));
    const { house, log } = c.get("server");
    if (findInCache(parseHubSpec(model)!, hubCachePath(process.env)) === null) throw unknown(model); // before it loses its name
    if (!(await house.remove(model, c))) {
      const message = `The model ${JSON.stringify(model)} answers requests, or was named at the start: it cannot be deleted now.`;
      throw new ApiError("model_in_use", message, { param: "model" });
    }
    if (!removeModel(model)) throw unknown(model);
    log.info({ model }, "a model was deleted");
    return c.body(null, 200);
  },
};

/** The model that the request names, as the hub does: `hf.co/` in front is how Ollama's users write it. */
function allowedModel(c: Context<AppEnv>, { model, name }: { model?: string | undefined; name?: string | undefined }) {
  const { config } = c.get("server");
  if (!config.hubModels)
    throw new ApiError(
      "hub_models_off",
      "This server fetches and deletes no models: it was started without --hub-models.",
    );
  if (!c.get("tenant").isAdmin)
    throw new ApiError("admin_key_needed", "Fetching and deleting models takes a key of adminKey.");
  const spec = (model ?? name ?? "").replace(/^(hf\.co|huggingface\.co)\//, "").replace(/:latest$/, "");
  if (parseHubSpec(spec)?.repo.includes("/") !== true) throw unknown(spec);
  return spec;
}

function unknown(model: string): ApiError {
  const message = `There is no model ${JSON.stringify(model)}: name one of the hub, ORG/NAME or ORG/NAME:QUANTISATION.`;
  return new ApiError("model_not_found", message, { param: "model" });
}

/** How far the fetch is, now and then, as Ollama writes it. */
async function* progress(
  fetch: (onProgress: (done: number, total: number, file: string) => void) => Promise<void>,
): AsyncGenerator<ServerEvent> {
  yield { data: { status: "pulling manifest" } };
  let latest: unknown = null;
  let isOver = false;
  const over = fetch((completed, total, file) => {
    latest = { status: `pulling ${file}`, digest: file, total, completed };
  }).finally(() => {
    isOver = true;
  });
  over.catch(() => {}); // awaited below
  for (let told = latest; !isOver; ) {
    await Promise.race([over, sleep(PROGRESS_MS)]);
    if (latest !== told) yield { data: latest };
    told = latest;
  }
  await over;
  yield { data: { status: "success" } };
}
