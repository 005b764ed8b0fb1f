// `pagoda serve`: the OpenAI-compatible server, until SIGTERM or SIGINT. The first signal drains, a second one ends at once. With --nats
// it is also a replica of a cluster.

import { checkRole, joinAsReplica, type ReplicaMember } from "../cluster/join.js";
import {
  CLUSTER_OPTIONS,
  type ClusterConfig,
  clusterConfig,
  REPLICA_OPTIONS,
  type Role,
} from "../config/cluster-config.js";
import { BUNDLED_MODEL, ENGINE_OPTIONS } from "../config/engine-config.js";
import { type OptionTable, resolveOptions } from "../config/options.js";
import { SERVER_OPTIONS, type ServerConfig, serverConfig } from "../config/server-config.js";
import { createEngine, startEngine } from "../engine/client/engine.js";
import type { RelayEngine } from "../engine/client/relay.js";
import { stderrSink } from "../server/log-sink.js";
import type { GuestModel } from "../server/model-house.js";
import { createServer } from "../server/server.js";
import { helpOf, parseFlags } from "./args.js";
import { CONFIG_OPTION, catchSignals, guestName, layered, MODEL_OPTION, pick } from "./service.js";
import { bold, dim, loadProgress } from "./terminal.js";

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
  const server = serverConfig(pick(all, SERVER_OPTIONS)); // checked before a model is loaded
  const cluster = clusterConfig(pick(all, CLUSTER_OPTIONS));
  const { role } = resolveOptions<{ role: Role }>(REPLICA_OPTIONS, pick(all, REPLICA_OPTIONS));
  if (cluster.nats.length > 0) checkRole(cluster, { host: server.host, role });

  const { model = [BUNDLED_MODEL], ...engineOptions } = pick(all, ENGINE_OPTIONS);
  const [first, ...others] = (typeof model === "string" ? [model] : model) as string[]; // a file may name one plainly
  const progress = loadProgress("loading");
  await using engine = await startEngine({ ...engineOptions, model: first!, onProgress: progress.onProgress });
  progress.done();
  const guests = others.map((guest) => guestOf(guest, engineOptions));
  const service = createServer(engine, { ...server, guests });
  const { url } = await service.listen();
  welcome(url, service.context.modelNames[0]!, engine.model.device, server.apiKey.length + server.adminKey.length);
  engine.warm();
  const member = cluster.nats.length === 0 ? null : await join(engine, cluster, server, { url, role });

  const nextSignal = catchSignals();
  await nextSignal();
  stderrSink.write(dim(`draining for up to ${server.drainSeconds} s; a second signal ends at once\n`));
  void nextSignal().then((number) => process.exit(128 + number));
  const [isClean] = await Promise.all([service.close(), member?.drain(server.drainSeconds * 1000)]);
  await member?.close();
  await engine.close();
  // Not by running out of work: a log pipe that nobody reads would keep the process.
  process.exit(isClean ? 0 : 1);
}

async function join(
  engine: RelayEngine,
  cluster: ClusterConfig,
  server: ServerConfig,
  { url, role }: { readonly url: string; readonly role: Role },
): Promise<ReplicaMember> {
  const { maxConcurrent: slots, maxQueued } = server;
  const member = await joinAsReplica(engine, cluster, { address: url, host: server.host, role, slots, maxQueued });
  const as = role === "both" ? "replica" : role;
  stderrSink.write(`  ${as.padEnd(18)}  ${member.id} of the cluster ${cluster.cluster}\n`);
  return member;
}

function guestOf(model: string, options: Record<string, unknown>): GuestModel {
  return {
    name: guestName(model),
    load: (onBytes) => createEngine({ ...options, model, onProgress: (_, totalBytes) => onBytes(totalBytes) }),
  };
}

function welcome(url: string, model: string, device: string, numKeys: number): void {
  stderrSink.write(`${bold("pagoda")} serves ${bold(model)} on ${device}\n`);
  stderrSink.write(`  chat and dashboard  ${url}\n  OpenAI API          ${url}/v1\n`);
  const isLocal = /127\.0\.0\.1|localhost|\[::1\]/.test(url);
  if (!isLocal && numKeys === 0) stderrSink.write("  anyone who can reach this address can use it: set --api-key\n");
}
