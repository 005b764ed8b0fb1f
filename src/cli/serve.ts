// `pagoda serve`: the OpenAI-compatible server. Its options; serving.ts does the rest, and is loaded once they are in order.

import { CLUSTER_OPTIONS, clusterConfig, REPLICA_OPTIONS, type Role } from "../config/cluster-config.js";
import { BUNDLED_MODEL, ENGINE_OPTIONS } from "../config/engine-config.js";
import { type OptionTable, resolveOptions } from "../config/options.js";
import { SERVER_OPTIONS, serverConfig } from "../config/server-config.js";
import { helpOf, parseFlags } from "./args.js";
import { CONFIG_OPTION, layered, MODEL_OPTION, pick } from "./service.js";

const FILE_OPTIONS = {
  ...SERVER_OPTIONS,
  ...CLUSTER_OPTIONS,
  ...REPLICA_OPTIONS,
  ...ENGINE_OPTIONS,
  ...MODEL_OPTION,
} as const satisfies OptionTable;
export const SERVE_OPTIONS = { ...CONFIG_OPTION, ...FILE_OPTIONS } as const satisfies OptionTable;

export async function serveCommand(args: readonly string[]): Promise<number> {
  const { values, positionals, wantsHelp } = parseFlags(SERVE_OPTIONS, args);
  if (wantsHelp || positionals.length > 0) {
    process.stdout.write(`Usage: pagoda serve [options]\n\n${helpOf(SERVE_OPTIONS, { showEnv: true })}\n`);
    return wantsHelp ? 0 : 2;
  }
  const all = layered(SERVE_OPTIONS, FILE_OPTIONS, values);
  const server = serverConfig(pick(all, SERVER_OPTIONS));
  const cluster = clusterConfig(pick(all, CLUSTER_OPTIONS));
  const { role } = resolveOptions<{ role: Role }>(REPLICA_OPTIONS, pick(all, REPLICA_OPTIONS));
  const { model = [BUNDLED_MODEL], ...engine } = pick(all, ENGINE_OPTIONS);
  const models = (typeof model === "string" ? [model] : model) as string[]; // a file may name one plainly
  const { serve } = await import("./serving.js");
  return serve({ models, engine, server, cluster, role });
}
