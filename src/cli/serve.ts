// `pagoda serve`: the OpenAI-compatible server, until SIGTERM or SIGINT. The first signal drains, a second one ends at once.

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { fromConfigFile } from "../config/config-file.js";
import { BUNDLED_MODEL, ENGINE_OPTIONS } from "../config/engine-config.js";
import { fromEnvironment, type OptionTable, refuseUnknownVariables } from "../config/options.js";
import { SERVER_OPTIONS, serverConfig } from "../config/server-config.js";
import { createEngine } from "../engine/client/engine.js";
import { modelNameOf } from "../formats/hub/hub-cache.js";
import { stderrSink } from "../server/log-sink.js";
import type { GuestModel } from "../server/model-house.js";
import { createServer } from "../server/server.js";
import { helpOf, parseFlags } from "./args.js";
import { bold, dim, loadProgress } from "./terminal.js";

const CONFIG_OPTION = {
  config: {
    type: "string",
    default: null,
    defaultText: "none",
    help: "JSON file of options; flags and environment win",
  },
} as const satisfies OptionTable;
/** The first model is loaded at once, the others when a request names them. */
const MODEL_OPTION = {
  model: {
    ...ENGINE_OPTIONS.model,
    type: "list",
    default: [BUNDLED_MODEL],
    help: `${ENGINE_OPTIONS.model.help}; may be given several times`,
  },
} as const satisfies OptionTable;
const FILE_OPTIONS = { ...SERVER_OPTIONS, ...ENGINE_OPTIONS, ...MODEL_OPTION } as const satisfies OptionTable;
export const SERVE_OPTIONS = { ...CONFIG_OPTION, ...FILE_OPTIONS } as const satisfies OptionTable;

export async function serveCommand(args: readonly string[]): Promise<number> {
  const { values, positionals, wantsHelp } = parseFlags(SERVE_OPTIONS, args);
  if (wantsHelp || positionals.length > 0) {
    process.stdout.write(`Usage: pagoda serve [options]\n\n${helpOf(SERVE_OPTIONS, { showEnv: true })}\n`);
    return wantsHelp ? 0 : 2;
  }
  refuseUnknownVariables(SERVE_OPTIONS, process.env);
  const layers = [fromEnvironment(SERVE_OPTIONS, process.env), values];
  const path = layers.map((layer) => layer.config).findLast((value) => typeof value === "string");
  const file = typeof path === "string" ? fromConfigFile(FILE_OPTIONS, path) : {};
  const all = Object.assign({}, file, ...layers) as Record<string, unknown>;
  const server = serverConfig(pick(all, SERVER_OPTIONS)); // checked before a model is loaded

  const { model = [BUNDLED_MODEL], ...engineOptions } = pick(all, ENGINE_OPTIONS);
  const [first, ...others] = (typeof model === "string" ? [model] : model) as string[]; // a file may name one plainly
  const progress = loadProgress("loading");
  await using engine = await createEngine({ ...engineOptions, model: first!, onProgress: progress.onProgress });
  progress.done();
  const guests = others.map((guest) => guestOf(guest, engineOptions));
  const service = createServer(engine, { ...server, guests });
  const { url } = await service.listen();
  welcome(url, service.context.modelNames[0]!, engine.model.device, server.apiKey.length + server.adminKey.length);

  await nextSignal();
  stderrSink.write(dim(`draining for up to ${server.drainSeconds} s; a second signal ends at once\n`));
  void nextSignal().then((number) => process.exit(128 + number));
  const isClean = await service.close();
  await engine.close();
  // Not by running out of work: a log pipe that nobody reads would keep the process.
  process.exit(isClean ? 0 : 1);
}

function guestOf(model: string, options: Record<string, unknown>): GuestModel {
  return {
    name: existsSync(model) ? modelNameOf(resolve(model)) : model,
    load: (onBytes) => createEngine({ ...options, model, onProgress: (_, totalBytes) => onBytes(totalBytes) }),
  };
}

function welcome(url: string, model: string, device: string, numKeys: number): void {
  stderrSink.write(`${bold("pagoda")} serves ${bold(model)} on ${device}\n`);
  stderrSink.write(`  chat and dashboard  ${url}\n  OpenAI API          ${url}/v1\n`);
  const isLocal = /127\.0\.0\.1|localhost|\[::1\]/.test(url);
  if (!isLocal && numKeys === 0) stderrSink.write("  anyone who can reach this address can use it: set --api-key\n");
}

/** Resolves to the number of the next SIGTERM or SIGINT. */
function nextSignal(): Promise<number> {
  return new Promise((resolve) => {
    const onSignal = (_: NodeJS.Signals, number: number): void => {
      process.off("SIGTERM", onSignal);
      process.off("SIGINT", onSignal);
      resolve(number);
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
  });
}

function pick(values: Readonly<Record<string, unknown>>, table: OptionTable): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([key]) => key in table));
}
