// POST /v1/load_lora_adapter and /v1/unload_lora_adapter, as vLLM has them, and GET /lora-adapters, as llama.cpp has it. Loading reads files of
// this machine: from one folder only, and for who holds an admin's key.

import { realpathSync } from "node:fs";
import { isAbsolute, relative, resolve } from "node:path";
import type { Context } from "hono";
import { z } from "zod";
import { FormatError } from "../../core/errors.js";
import type { AppEnv } from "../context.js";
import { ApiError } from "../http/api-error.js";
import { readJson } from "../http/body.js";
import type { Route } from "../http/route.js";

const nameSchema = z.string().min(1).max(200);
const loadSchema = z.strictObject({
  lora_name: nameSchema,
  lora_path: z.string().min(1).max(4096).meta({ description: "Absolute, or from the folder of adapterDir on." }),
  pin: z.boolean().optional().meta({ description: "Keep it in memory until it is unloaded." }),
});
const unloadSchema = z.strictObject({ lora_name: nameSchema });

export const loadAdapter: Route = {
  method: "post",
  path: "/v1/load_lora_adapter",
  summary: "Load an adapter",
  body: loadSchema,
  handle: async (c) => {
    const { lora_name: name, lora_path: path, pin = false } = await readJson(c, loadSchema);
    requireAdmin(c);
    const { engine, house } = c.get("server");
    if (house.names.includes(name) && !house.adapters.has(name))
      throw new ApiError("invalid_value", `lora_name: ${JSON.stringify(name)} is a model's name.`, {
        param: "lora_name",
      });
    await engine.loadAdapter(name, allowedPath(c, path), { pin }).catch((error: unknown) => {
      // Of a model's files the server would be at fault; of this one its sender is.
      if (!(error instanceof FormatError)) throw error;
      throw new ApiError("invalid_value", `lora_path: ${error.message}`, { param: "lora_path" });
    });
    return c.text(`Success: LoRA adapter '${name}' added successfully.`);
  },
};

export const unloadAdapter: Route = {
  method: "post",
  path: "/v1/unload_lora_adapter",
  summary: "Unload an adapter",
  body: unloadSchema,
  handle: async (c) => {
    const { lora_name: name } = await readJson(c, unloadSchema);
    requireAdmin(c);
    await c.get("server").engine.unloadAdapter(name);
    return c.text(`Success: LoRA adapter '${name}' removed successfully.`);
  },
};

export const loraAdapters: Route = {
  method: "get",
  path: "/lora-adapters",
  summary: "The adapters by number (llama.cpp's API)",
  handle: (c) => {
    const { adapters } = c.get("server").engine;
    const { isAdmin } = c.get("tenant");
    return c.json(adapters.map(({ name, path }, id) => ({ id, name, path: isAdmin ? path : name, scale: 0 })));
  },
};

function requireAdmin(c: Context<AppEnv>): void {
  if (c.get("tenant").isAdmin) return;
  throw new ApiError("admin_key_needed", "Loading and unloading adapters takes a key of adminKey.");
}

/** The path with every link resolved, if it is below the folder. Whether anything else exists on this machine is not told. */
function allowedPath(c: Context<AppEnv>, path: string): string {
  const { adapterDir } = c.get("server").config;
  const refuse = (message: string): never => {
    throw new ApiError("adapter_not_allowed", message, { param: "lora_path" });
  };
  if (adapterDir === null)
    return refuse("This server loads no adapters by request: it was started without --adapter-dir.");
  const outside = `The adapter ${JSON.stringify(path)} is not in the folder that adapters may be loaded from (adapterDir).`;
  let found: string;
  try {
    found = realpathSync(resolve(adapterDir, path));
  } catch {
    return refuse(outside);
  }
  const inside = relative(realpathSync(adapterDir), found);
  return inside === "" || inside.startsWith("..") || isAbsolute(inside) ? refuse(outside) : found;
}
