// `pagoda cluster status`: who is in a cluster and how they fare.

import { PROTOCOL } from "../../cluster/bus/wire.js";
import type { ReplicaEntry } from "../../cluster/membership/registration.js";
import { type ClusterStatus, readStatus } from "../../cluster/membership/status.js";
import { CLUSTER_OPTIONS, clusterConfig } from "../../config/cluster-config.js";
import { fromEnvironment, type OptionTable } from "../../config/options.js";
import { ConfigError } from "../../core/errors.js";
import { hasHelped, parseFlags } from "../args.js";
import { renderTable } from "../bench/table.js";
import { pick } from "../service.js";

export const CLUSTER_COMMAND_OPTIONS = {
  ...CLUSTER_OPTIONS,
  json: { type: "boolean", default: false, help: "print as JSON" },
} as const satisfies OptionTable;
export const CLUSTER_WORDS = ["status"] as const;

export async function clusterCommand(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(CLUSTER_COMMAND_OPTIONS, args);
  const line = "cluster status --nats URL [options]";
  if (hasHelped(CLUSTER_COMMAND_OPTIONS, { line, words: { least: 1, most: 1 } }, parsed)) return 0;
  const { values, positionals } = parsed;
  if (positionals[0] !== "status")
    throw new ConfigError("wrong_usage", { reason: `There is no place for ${positionals[0]}.`, usage: line });
  const config = clusterConfig(fromEnvironment(CLUSTER_OPTIONS, process.env), pick(values, CLUSTER_OPTIONS));
  if (config.nats.length === 0)
    throw new ConfigError("invalid_option", {
      param: "--nats",
      value: "missing",
      expected: "the cluster's NATS servers",
    });
  const status = await readStatus(config);
  process.stdout.write(values.json === true ? `${JSON.stringify(status, null, 2)}\n` : statusText(status, Date.now()));
  return 0;
}

export function statusText({ cluster, models, replicas, routers }: ClusterStatus, nowMs: number): string {
  if (replicas.length + routers.length === 0) return `Nobody is in the cluster ${cluster}.\n`;
  const modelTable = renderTable({
    caption: `cluster ${cluster}`,
    head: ["model", "ready", "draining", "restarting", "versions", "calls", "waiting", "hit rate", "done", "failed"],
    rows: Object.entries(models).map(([name, model]) => [
      name,
      model.ready,
      model.draining,
      model.restarting,
      model.versions,
      model.calls,
      model.waiting,
      share(model.cachedTokens, model.promptTokens),
      model.requestsFinished,
      model.callsFailed,
    ]),
  });
  const replicaTable = renderTable({
    caption: "",
    head: [
      "replica",
      "model",
      "role",
      "state",
      "up",
      "calls",
      "waiting",
      "pages used",
      "cached",
      "hit rate",
      "prompt tok/s",
      "done",
      "failed",
      "refused",
      "pages fetched",
      "fetches failed",
      "address",
    ],
    rows: replicas.map((entry) => replicaRow(entry, nowMs)),
  });
  const routerTable = renderTable({
    caption: "",
    head: ["router", "models", "up", "calls", "resumed", "prefilled", "replicas lost", "address"],
    rows: routers.map(({ id, models: names, startedMs, calls, resumed, prefilled, lost, address }) => [
      id,
      names.join(", "),
      since(startedMs, nowMs),
      calls,
      resumed,
      prefilled,
      lost,
      address,
    ]),
  });
  return (replicas.length === 0 ? "" : modelTable + replicaTable) + (routers.length === 0 ? "" : routerTable);
}

function replicaRow(
  { id, model, role, protocol, state, startedMs, load, address }: ReplicaEntry,
  nowMs: number,
): (string | number)[] {
  return [
    id,
    model,
    role,
    protocol === PROTOCOL ? state : `${state} (protocol ${protocol})`,
    since(startedMs, nowMs),
    load.calls.count,
    load.waiting,
    share(load.pagesUsed, load.pagesTotal),
    share(load.pagesCached, load.pagesTotal),
    share(load.cachedTokens, load.promptTokens),
    Math.round(load.tokensPerSecond),
    load.requestsFinished,
    load.callsFailed,
    load.callsRefused,
    load.pagesFetched,
    load.fetchesFailed,
    address,
  ];
}

function share(part: number, whole: number): string {
  return whole === 0 ? "-" : `${Math.round((100 * part) / whole)} %`;
}

function since(startedMs: number, nowMs: number): string {
  const seconds = Math.max(0, Math.round((nowMs - startedMs) / 1000));
  if (seconds < 120) return `${seconds} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}
