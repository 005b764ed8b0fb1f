// Ollama's API: what its clients ask about models.

import { createHash } from "node:crypto";
import { SAMPLING, type SamplingParam } from "../../core/sampling.js";
import type { ModelInfo } from "../../engine/types.js";
import { checkModel } from "../calls/prompt.js";
import type { ServerContext } from "../context.js";
import { readJson } from "../http/body.js";
import type { Route } from "../http/route.js";
import { shapeError } from "./form.js";
import { ollamaShowSchema } from "./schema.js";

function entry({ house, startedMs }: ServerContext, name: string): Record<string, unknown> {
  const engine = house.loaded.find(({ modelNames }) => modelNames.includes(name))?.engine;
  return {
    name,
    model: name,
    modified_at: new Date(startedMs).toISOString(),
    size: house.bytesOf(name),
    digest: createHash("sha256").update(name).digest("hex"),
    details: detailsOf(engine?.model.architecture ?? ""),
  };
}

function detailsOf(family: string): Record<string, unknown> {
  return { parent_model: "", format: "", family, families: [family], parameter_size: "", quantization_level: "" };
}

/** One line each, as Ollama prints a Modelfile's. */
function parametersOf(sampling: ModelInfo["sampling"]): string {
  return Object.entries(sampling)
    .map(([key, value]) => `${(SAMPLING as Record<string, SamplingParam>)[key]!.api} ${value}`)
    .join("\n");
}

export const ollamaTags: Route = {
  method: "get",
  path: "/api/tags",
  summary: "The models served (Ollama's API)",
  shapeError,
  handle: (c) => {
    const context = c.get("server");
    return c.json({ models: context.house.names.map((name) => entry(context, name)) });
  },
};

export const ollamaPs: Route = {
  method: "get",
  path: "/api/ps",
  summary: "The models loaded (Ollama's API)",
  shapeError,
  handle: (c) => {
    const context = c.get("server");
    const never = new Date(8.64e15 / 1000).toISOString();
    const awake = context.house.loaded.filter(({ engine }) => engine.health().state !== "asleep");
    const models = awake.map(({ engine, modelNames, calls }) => ({
      ...entry(context, modelNames[0]!),
      expires_at:
        engine.asleepAtMs === null ? never : new Date(performance.timeOrigin + engine.asleepAtMs).toISOString(),
      size_vram: 0,
      context_length: engine.model.maxContext,
      active: calls.size,
    }));
    return c.json({ models });
  },
};

export const ollamaShow: Route = {
  method: "post",
  path: "/api/show",
  summary: "About a model (Ollama's API)",
  body: ollamaShowSchema,
  shapeError,
  handle: async (c) => {
    const body = await readJson(c, ollamaShowSchema, { loads: false }); // clients ask it of every model in the list
    const { house, startedMs } = c.get("server");
    const name = body.model ?? body.name;
    const context = house.contextNow(name);
    if (context === null) return c.json(unloaded(startedMs));
    checkModel(context, name);
    const { engine, form } = context;
    const { architecture, maxContext, vocabSize, task, hasChatTemplate, hasEyes, sampling } = engine.model;
    return c.json({
      modelfile: "",
      parameters: parametersOf(sampling),
      template: "",
      license: "",
      modified_at: new Date(startedMs).toISOString(),
      details: detailsOf(architecture),
      model_info: {
        "general.architecture": architecture,
        [`${architecture}.context_length`]: maxContext,
        [`${architecture}.vocab_size`]: vocabSize,
      },
      capabilities: [
        ...(task === "generate" ? ["completion"] : []),
        ...(hasChatTemplate && form.toolFormat !== null && form.toolPlace === "template" ? ["tools"] : []),
        ...(hasEyes ? ["vision"] : []),
        "embedding",
      ],
    });
  },
};

/** Of a model that was not asked anything yet: its file is not opened for this. */
function unloaded(startedMs: number): Record<string, unknown> {
  const modified_at = new Date(startedMs).toISOString();
  const said = { modelfile: "", parameters: "", template: "", license: "", modified_at, details: detailsOf("") };
  return { ...said, model_info: {}, capabilities: ["completion"] };
}

export const ollamaVersion: Route = {
  method: "get",
  path: "/api/version",
  summary: "The version of the server (Ollama's API)",
  isOpen: true,
  handle: (c) => c.json({ version: c.get("server").version }),
};
