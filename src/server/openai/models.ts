// GET /v1/models and /v1/models/:model

import type { ServerContext } from "../context.js";
import { ApiError } from "../http/api-error.js";
import type { Route } from "../http/route.js";

function entry({ house, startedMs }: ServerContext, id: string, isAdmin: boolean): Record<string, unknown> {
  const adapted = house.adapters.get(id);
  const named = adapted?.parent ?? id;
  const engine = house.loaded.find(({ modelNames }) => modelNames.includes(named))?.engine;
  return {
    id,
    object: "model",
    created: Math.floor(startedMs / 1000),
    owned_by: "pagoda",
    // Where it lies on this machine is for its administrators.
    ...(adapted === undefined ? {} : { root: isAdmin ? adapted.adapter.path : id, parent: adapted.parent }),
    is_loaded: engine !== undefined && engine.health().state !== "asleep",
    ...(engine === undefined
      ? {}
      : { max_model_len: engine.model.maxContext, architecture: engine.model.architecture }),
  };
}

export const listModels: Route = {
  method: "get",
  path: "/v1/models",
  summary: "The models served",
  handle: (c) => {
    const context = c.get("server");
    return c.json({
      object: "list",
      data: context.house.names.map((name) => entry(context, name, c.get("tenant").isAdmin)),
    });
  },
};

export const getModel: Route = {
  method: "get",
  path: "/v1/models/:model{.+}",
  summary: "One model",
  handle: (c) => {
    const context = c.get("server");
    const name = c.req.param("model")!;
    if (!context.house.names.includes(name))
      throw new ApiError("model_not_found", `The model ${JSON.stringify(name)} is not served here.`, {
        param: "model",
      });
    return c.json(entry(context, name, c.get("tenant").isAdmin));
  },
};
