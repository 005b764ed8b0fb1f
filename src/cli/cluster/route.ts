// `pagoda route`: the address of a cluster. The same API as `pagoda serve`; the model's replicas answer. Keeps nothing that another router
// would need: any number may run, and any may be ended.

import { joinAsRouter } from "../../cluster/join.js";
import { createRoutedEngine } from "../../cluster/router/routed-engine.js";
import { CLUSTER_OPTIONS, clusterConfig, ROUTER_OPTIONS } from "../../config/cluster-config.js";
import { BUNDLED_MODEL, ENGINE_OPTIONS } from "../../config/engine-config.js";
import { type OptionTable, resolveOptions } from "../../config/options.js";
import { SERVER_OPTIONS, serverConfig } from "../../config/server-config.js";
import { ConfigError } from "../../core/errors.js";
import type { Engine } from "../../engine/types.js";
import { stderrSink } from "../../server/http/log-sink.js";
import { HttpService } from "../../server/http-service.js";
import { hasHelped, parseFlags } from "../args.js";
import { CONFIG_OPTION, catchSignals, layered, MODEL_OPTION, pick, servedName } from "../service.js";
import { bold, dim } from "../terminal.js";
import { clusterRoute, watchCluster } from "./cluster-view.js";

const FILE_OPTIONS = {
  ...SERVER_OPTIONS,
  maxConcurrent: {
    ...SERVER_OPTIONS.maxConcurrent,
    default: 4096,
    help: "requests in the cluster at once through this router; more wait",
  },
  ...CLUSTER_OPTIONS,
  ...ROUTER_OPTIONS,
  ...MODEL_OPTION,
  controlTokensInContent: ENGINE_OPTIONS.controlTokensInContent,
} as const satisfies OptionTable;
export const ROUTE_OPTIONS = { ...CONFIG_OPTION, ...FILE_OPTIONS } as const satisfies OptionTable;

export async function routeCommand(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(ROUTE_OPTIONS, args);
  const usage = {
    line: "route --nats URL [options]",
    common: ["nats", "cluster", "model", "port", "host", "apiKey", "maxConcurrent", "patienceSeconds", "config"],
    groups: { Cluster: { ...CLUSTER_OPTIONS, ...ROUTER_OPTIONS }, Server: FILE_OPTIONS },
    showEnv: true,
  };
  if (hasHelped(ROUTE_OPTIONS, usage, parsed)) return 0;
  const { values } = parsed;
  const all = layered(ROUTE_OPTIONS, FILE_OPTIONS, values);
  const server = serverConfig({ maxConcurrent: FILE_OPTIONS.maxConcurrent.default }, pick(all, SERVER_OPTIONS));
  const cluster = clusterConfig(pick(all, CLUSTER_OPTIONS));
  if (cluster.nats.length === 0)
    throw new ConfigError("invalid_option", {
      param: "--nats",
      value: "missing",
      expected: "the cluster's NATS servers",
    });
  if (server.hubModels)
    throw new ConfigError("invalid_option", {
      param: "--hub-models",
      value: true,
      expected: "no router, which holds no models: replicas take it",
    });
  const { model = [BUNDLED_MODEL], controlTokensInContent = false } = all;
  const { patienceSeconds, prefillTokens } = resolveOptions<{ patienceSeconds: number; prefillTokens: number }>(
    ROUTER_OPTIONS,
    pick(all, ROUTER_OPTIONS),
  );
  const [first, ...others] = (typeof model === "string" ? [model] : model) as string[];

  const member = await joinAsRouter(cluster);
  const engines = new Map<string, Engine>(); // by the model's own name
  const engineOf = async (name: string): Promise<Engine> => {
    const routed = await createRoutedEngine(member.router, {
      model: name,
      cluster: cluster.cluster,
      patienceMs: patienceSeconds * 1000,
      prefillTokens,
      controlTokensInContent: controlTokensInContent as boolean,
    });
    engines.set(routed.model.name, routed);
    return routed;
  };
  const textOf = (name: string, tokens: readonly number[]): string => engines.get(name)?.tokenizer.decode(tokens) ?? "";
  const engine = await engineOf(first!);
  const guests = others.map((guest) => ({ name: servedName(guest), load: () => engineOf(guest) }));
  const routes = [clusterRoute(member.router, cluster.cluster, textOf)];
  const service = new HttpService(engine, server, { guests, routes });
  watchCluster(member.router, service.context);
  const { url } = await service.listen();
  await member.register({ address: url, models: service.context.house.names });
  stderrSink.write(
    `${bold("pagoda")} routes ${bold(service.context.house.names.join(", "))} in the cluster ${cluster.cluster}\n`,
  );
  stderrSink.write(`  OpenAI API  ${url}/v1\n`);

  const nextSignal = catchSignals();
  await nextSignal();
  stderrSink.write(dim(`draining for up to ${server.drainSeconds} s; a second signal ends at once\n`));
  void nextSignal().then((number) => process.exit(128 + number));
  const isClean = await service.close();
  await engine.close();
  await member.close();
  process.exit(isClean ? 0 : 1);
}
