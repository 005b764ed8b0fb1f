// `pagoda serve`: the OpenAI-compatible server. Its options; serving.ts does the rest, and is loaded once they are in order.

import { CLUSTER_OPTIONS, clusterConfig, REPLICA_OPTIONS, type Role } from "../../config/cluster-config.js";
import { ADAPTER_MEMORY, BUNDLED_MODEL, ENGINE_OPTIONS } from "../../config/engine-config.js";
import { type OptionTable, resolveOptions } from "../../config/options.js";
import { SERVER_OPTIONS, serverConfig } from "../../config/server-config.js";
import { hasHelped, parseFlags, type Usage } from "../args.js";
import { CONFIG_OPTION, layered, MODEL_OPTION, pick } from "../service.js";
import { fromVllmFlags } from "./lora-flags.js";

const FILE_OPTIONS = {
  ...SERVER_OPTIONS,
  ...CLUSTER_OPTIONS,
  ...REPLICA_OPTIONS,
  ...ENGINE_OPTIONS,
  ...MODEL_OPTION,
} as const satisfies OptionTable;
export const SERVE_OPTIONS = { ...CONFIG_OPTION, ...FILE_OPTIONS } as const satisfies OptionTable;

const USAGE: Usage = {
  line: "serve [MODEL...] [options]",
  examples: [
    "pagoda serve ./model.gguf",
    "PAGODA_API_KEY=secret pagoda serve Qwen/Qwen3-0.6B --device cuda --host 0.0.0.0",
  ],
  common: [
    ...["model", "port", "host", "apiKey", "device", "quantize", "maxContext", "kvMemoryMb", "maxConcurrent"],
    ...["servedModelName", "corsOrigin", "logLevel", "config"],
  ],
  groups: {
    Server: SERVER_OPTIONS,
    Engine: ENGINE_OPTIONS,
    "In a cluster": { ...CLUSTER_OPTIONS, ...REPLICA_OPTIONS },
  },
  showEnv: true,
  words: { most: Number.POSITIVE_INFINITY },
};

export async function serveCommand(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(SERVE_OPTIONS, fromVllmFlags(args));
  if (hasHelped(SERVE_OPTIONS, USAGE, parsed)) return 0;
  const named = [...((parsed.values.model as readonly string[] | undefined) ?? []), ...parsed.positionals];
  const values = named.length === 0 ? parsed.values : { ...parsed.values, model: named };
  const all = layered(SERVE_OPTIONS, FILE_OPTIONS, values);
  const server = serverConfig(pick(all, SERVER_OPTIONS));
  const cluster = clusterConfig(pick(all, CLUSTER_OPTIONS));
  const { role } = resolveOptions<{ role: Role }>(REPLICA_OPTIONS, pick(all, REPLICA_OPTIONS));
  const { model = [BUNDLED_MODEL], ...engine } = pick(all, ENGINE_OPTIONS);
  const models = (typeof model === "string" ? [model] : model) as string[]; // a file may name one plainly
  const { serve } = await import("./serving.js");
  // Adapters that come by request find their memory set aside too.
  const aside = server.adapterDir === null ? {} : { adapterMemory: ADAPTER_MEMORY };
  return serve({ models, engine: { ...aside, ...engine }, server, cluster, role });
}
