// What `pagoda serve` does once its options are in order: a model behind a server, until SIGTERM or SIGINT. The first signal drains, a
// second one ends at once. With --nats it is also a replica of a cluster. The server's modules load while the model does.

import type { ReplicaMember } from "../../cluster/join.js";
import type { ClusterConfig, Role } from "../../config/cluster-config.js";
import type { ServerConfig } from "../../config/server-config.js";
import { createEngine } from "../../engine/client/engine.js";
import { checkAddress } from "../../server/http/address.js";
import { stderrSink } from "../../server/http/log-sink.js";
import type { GuestModel } from "../../server/models/guest-model.js";
import { catchSignals, servedName } from "../service.js";
import { startWithProgress } from "../start-engine.js";
import { bold, dim } from "../terminal.js";

export interface Serving {
  /** The first is loaded at once. */
  readonly models: readonly string[];
  readonly engine: Record<string, unknown>;
  readonly server: ServerConfig;
  readonly cluster: ClusterConfig;
  readonly role: Role;
}

/** Ends the process, unless it throws before it listens. */
export async function serve({ models, engine: options, server, cluster, role }: Serving): Promise<never> {
  const clusters = cluster.nats.length === 0 ? null : await import("../../cluster/join.js");
  clusters?.checkRole(cluster, { host: server.host, role });
  await checkAddress(server.host, server.port);
  const [first, ...others] = models;
  const started = startWithProgress({ ...options, model: first! });
  const [{ HttpService }] = await Promise.all([import("../../server/http-service.js"), started]);
  await using engine = await started;
  const guests = others.map((guest) => guestOf(guest, options));
  const servedModelName = server.servedModelName.length > 0 ? server.servedModelName : [servedName(first!)];
  const config = { ...server, servedModelName };
  const service = new HttpService(engine, config, { guests, guestOf: (model) => guestOf(model, options) });
  const { url } = await service.listen();
  welcome(url, service.context.modelNames[0]!, engine.model.device, server.apiKey.length + server.adminKey.length);
  engine.warm();
  const { host, maxConcurrent: slots, maxQueued } = server;
  const asReplica = { address: url, host, role, slots, maxQueued };
  const member = await clusters?.joinAsReplica(engine, cluster, asReplica).catch(async (error: unknown) => {
    await service.close(); // else what listens would keep the process, without an engine
    throw error;
  });
  if (member !== undefined) tellMember(member, cluster, role);

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

function guestOf(model: string, options: Record<string, unknown>): GuestModel {
  return {
    name: servedName(model),
    load: (onBytes) =>
      createEngine({ ...options, adapter: [], model, onProgress: (_, totalBytes) => onBytes(totalBytes) }),
  };
}

function welcome(url: string, model: string, device: string, numKeys: number): void {
  stderrSink.write(`${bold("pagoda")} serves ${bold(model)} on ${device}\n`);
  stderrSink.write(`  chat and dashboard  ${url}\n  OpenAI API          ${url}/v1\n`);
  const isLocal = /127\.0\.0\.1|localhost|\[::1\]/.test(url);
  if (!isLocal && numKeys === 0) stderrSink.write("  anyone who can reach this address can use it: set --api-key\n");
}

function tellMember({ id }: ReplicaMember, { cluster }: ClusterConfig, role: Role): void {
  stderrSink.write(`  ${(role === "both" ? "replica" : role).padEnd(18)}  ${id} of the cluster ${cluster}\n`);
}
