// `pagoda inspect [MODEL]`: what a checkpoint is, what it needs in memory, how many tokens fit. Loads no weights.

import { engineConfig } from "../config/engine-config.js";
import { fromEnvironment, type OptionTable } from "../config/options.js";
import type { CacheSpec } from "../core/cache-spec.js";
import { printable } from "../core/printable.js";
import { availableMemory } from "../device/host.js";
import { openCheckpoint } from "../engine/checkpoint.js";
import { pageBytesOf, pagedCaches } from "../engine/core/load/cache-pools.js";
import { kvDtypeOf, openDevice } from "../engine/core/load/devices.js";
import { poolSizes } from "../engine/core/load/pool-sizes.js";
import { resolveModel } from "../formats/hub/hub.js";
import { familyOf } from "../models/registry.js";
import { longestRow } from "../scheduler/scheduler.js";
import { hasHelped, parseFlags } from "./args.js";
import { RUN_OPTIONS } from "./sampling-options.js";
import { bytes } from "./terminal.js";

export const INSPECT_OPTIONS = {
  tensors: { type: "boolean", default: false, help: "list every tensor" },
  json: { type: "boolean", default: false, help: "print as JSON" },
  ...RUN_OPTIONS,
} as const satisfies OptionTable;

export async function inspectCommand(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(INSPECT_OPTIONS, args);
  const most = parsed.values.model === undefined ? 1 : 0;
  if (hasHelped(INSPECT_OPTIONS, { line: "inspect [MODEL] [options]", words: { most } }, parsed)) return 0;
  const { values, positionals } = parsed;
  const { tensors: _tensors, json, ...engineValues } = values;
  const model = positionals[0] === undefined ? {} : { model: positionals[0] };
  const config = engineConfig(fromEnvironment(RUN_OPTIONS, process.env), engineValues, model);
  const report = await inspect({ ...config, model: await resolveModel(config.model) });
  process.stdout.write(
    json === true ? `${JSON.stringify(report, null, 2)}\n` : `${printable(render(report, values.tensors === true))}\n`,
  );
  return 0;
}

export type InspectReport = Awaited<ReturnType<typeof inspect>>;

export async function inspect(config: ReturnType<typeof engineConfig>) {
  const checkpoint = openCheckpoint(config.model);
  const family = familyOf(checkpoint.config, checkpoint.configFile);
  const spec = family.specOf(family.parseConfig(checkpoint.config, checkpoint.configFile));
  const source = checkpoint.openTensors();
  const tensors = [...source.names()].map((name) => {
    const { dtype, shape, byteLength } = source.get(name);
    return { name, dtype, shape: [...shape], bytes: byteLength };
  });
  source.close();
  const device = await openDevice(config);
  const kvDtype = kvDtypeOf(config, device, spec);
  const pageBytes = pageBytesOf(spec.caches, device, { pageSize: config.pageSize, dtype: kvDtype });
  const maxContext = Math.min(config.maxContext ?? spec.maxContext, spec.maxContext);
  const { pageSize, idealChunk } = config;
  const { caches } = spec;
  const maxChunk = longestRow({ ...config, idealChunk: idealChunk ?? device.info.promptChunk });
  const sizes = poolSizes(config, device, { caches, pageBytes, pageSize, maxContext, maxChunk });
  const pools = caches.map((cache, g) => ({
    kind: cache.kind,
    numLayers: cache.layers.length,
    window: (cache.window ?? 0) + (cache.attentionChunk ?? 0),
    numPages: sizes[g]!,
    pageBytes: pageBytes[g]!,
    /** 0: what it keeps does not grow with the context. */
    bytesPerToken: cache.kind === "state" ? 0 : pageBytes[g]! / pageSize,
    poolBytes: sizes[g]! * pageBytes[g]!,
  }));
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  const kept = pools.filter(({ kind }) => kind === "full" || kind === "latent");
  const report = {
    model: checkpoint.name,
    path: checkpoint.path,
    ...spec,
    parameters: tensors.reduce((sum, t) => sum + t.shape.reduce((a, b) => a * b, 1), 0),
    checkpointBytes: tensors.reduce((sum, t) => sum + t.bytes, 0),
    weightBytes: tensors.reduce((sum, t) => sum + device.packedBytes(t, config.quantize), 0),
    hasTokenizer: checkpoint.tokenizer !== null,
    hasChatTemplate: checkpoint.templates.size > 0,
    device: device.info.name,
    kvDtype,
    pageSize: config.pageSize,
    pools,
    /** Of all groups that have pages. */
    pageBytes: sum(pools.filter(({ kind }) => kind !== "state").map((pool) => pool.pageBytes)),
    bytesPerToken: sum(pools.map(({ bytesPerToken }) => bytesPerToken)),
    poolBytes: sum(pools.map(({ poolBytes }) => poolBytes)),
    tokensThatFit: (Math.min(...(kept.length > 0 ? kept : pools).map(({ numPages }) => numPages)) - 1) * pageSize,
    freeMemoryBytes: availableMemory(),
    tensors,
  };
  device.close();
  return report;
}

/** What a cache group keeps, and what that takes. */
function describePool(pool: InspectReport["pools"][number], { keyDim, expandedFloats }: CacheSpec): string {
  if (pool.kind === "state") {
    return `states of ${pool.numLayers} layers: ${bytes(pool.pageBytes)} a request, ${pool.numPages} slots, ${bytes(pool.poolBytes)}`;
  }
  const kind = pool.window > 0 ? `${pool.kind} of ${pool.window}` : pool.kind;
  const less =
    expandedFloats === undefined ? "" : `, ${Math.round(expandedFloats / keyDim)} times less than full keys and values`;
  return (
    `${kind}, ${pool.numLayers} layers: ${bytes(pool.bytesPerToken)} a token${less}, ` +
    `${pool.numPages} pages, ${bytes(pool.poolBytes)}`
  );
}

function render(report: InspectReport, withTensors: boolean): string {
  const dtypes = new Map<string, number>();
  for (const tensor of report.tensors) dtypes.set(tensor.dtype, (dtypes.get(tensor.dtype) ?? 0) + tensor.bytes);
  const rows: [string, string][] = [
    ["model", `${report.model} (${report.architecture})`],
    [
      "parameters",
      `${(report.parameters / 1e6).toFixed(1)} M in ${report.tensors.length} tensors, ${bytes(report.checkpointBytes)}`,
    ],
    ["encodings", [...dtypes].map(([dtype, size]) => `${dtype} ${bytes(size)}`).join(", ")],
    ["layers", `${report.numLayers}, hidden ${report.hiddenSize}`],
    ...pagedCaches(report.caches).map((cache): [string, string] => [
      "attention",
      `${report.numHeads} query and ${cache.numKvHeads} kv heads, key ${cache.keyDim}, value ${cache.valueDim}, ` +
        `${cache.layers.length} layers`,
    ]),
    ["windows", report.plans.map(({ window }) => (window === 0 ? "full" : String(window))).join(", ")],
    ["vocabulary", String(report.vocabSize)],
    ["context", String(report.maxContext)],
    ["tokenizer", `${report.hasTokenizer ? "yes" : "none"}, chat template ${report.hasChatTemplate ? "yes" : "none"}`],
    ["device", `${report.device}, KV cache in ${report.kvDtype}`],
    ["weights", `${bytes(report.weightBytes)} in memory`],
    ["page", `${report.pageSize} tokens, ${bytes(report.pageBytes)} (${bytes(report.bytesPerToken)} a token)`],
    ...report.pools.map((pool, g): [string, string] => ["cache", describePool(pool, report.caches[g]!)]),
    ["pool", `${bytes(report.poolBytes)}: ${report.tokensThatFit} tokens fit`],
  ];
  const lines = rows.map(([name, value]) => `${name.padEnd(11)} ${value}`);
  if (withTensors) {
    for (const t of report.tensors) lines.push(`  ${t.name}  ${t.dtype} [${t.shape.join(", ")}]  ${bytes(t.bytes)}`);
  }
  return lines.join("\n");
}
