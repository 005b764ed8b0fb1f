// `pagoda launch AGENT`: a coding agent with a running server behind it. The agent runs as it is installed, in this folder and terminal.

import { spawn } from "node:child_process";
import { constants } from "node:os";
import type { OptionTable } from "../../config/options.js";
import { ConfigError } from "../../core/errors.js";
import { suggest } from "../../core/suggest.js";
import { hasHelped, parseFlags, type Usage } from "../args.js";
import { AGENTS, type Agent, type AgentStart } from "./agents.js";
import { ASK_OPTIONS, askedServer, askServer } from "./ask-server.js";

export const LAUNCH_OPTIONS = {
  ...ASK_OPTIONS,
  apiKey: { ...ASK_OPTIONS.apiKey, defaultText: "the first of PAGODA_API_KEY, on this machine" },
  model: { type: "string", short: "m", default: null, defaultText: "the server's first", help: "model to use" },
  print: { type: "boolean", default: false, help: "print the command and its environment instead of running it" },
} as const satisfies OptionTable;

const USAGE: Usage = {
  line: "launch AGENT [options] [-- ARGUMENTS OF THE AGENT]",
  about: `Agents: ${Object.keys(AGENTS).join(", ")}. Their own settings files are not changed.`,
  examples: ["pagoda launch claude", 'pagoda launch codex --model qwen3 -- exec "Fix the failing test"'],
  words: { least: 1, most: Number.POSITIVE_INFINITY },
};

interface ListedModel {
  readonly id: string;
  readonly max_model_len?: number;
}

export async function launchCommand(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(LAUNCH_OPTIONS, args);
  if (hasHelped(LAUNCH_OPTIONS, USAGE, parsed)) return 0;
  const [name, ...rest] = parsed.positionals;
  const agent = agentOf(name!);
  const { base, key } = askedServer(parsed.values, process.env.PAGODA_API_KEY);
  const asked = { ...parsed.values, ...(key === undefined ? {} : { apiKey: key }) };
  const { data } = (await askServer(asked, "GET", "/v1/models")) as { data: ListedModel[] };
  const model = modelOf(data, parsed.values.model as string | undefined, base);
  const start = agent.start({ base, key, model: model.id, context: model.max_model_len ?? null });
  if (parsed.values.print === true) {
    process.stdout.write(commandLine(agent, start, rest));
    return 0;
  }
  return run(agent, { ...start, args: [...start.args, ...rest] });
}

function agentOf(name: string): Agent {
  if (Object.hasOwn(AGENTS, name)) return AGENTS[name]!;
  const known = suggest(name, Object.keys(AGENTS)) || `Known: ${Object.keys(AGENTS).join(", ")}.`;
  throw new ConfigError("wrong_usage", { reason: `There is no agent ${name}. ${known}`, usage: USAGE.line });
}

function modelOf(models: readonly ListedModel[], name: string | undefined, base: string): ListedModel {
  const found = name === undefined ? models[0] : models.find(({ id }) => id === name);
  if (found !== undefined) return found;
  const reason = `it does not serve ${name}. Served: ${models.map(({ id }) => id).join(", ")}.`;
  throw new ConfigError("server_refused", { value: base, reason });
}

/** For a shell. */
function commandLine({ command }: Agent, { args, env }: AgentStart, rest: readonly string[]): string {
  const quoted = (text: string): string => (/^[\w./:=@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const lines = Object.entries(env).map(([variable, value]) =>
    value === undefined ? `unset ${variable}` : `export ${variable}=${quoted(value)}`,
  );
  return `${[...lines, [command, ...args, ...rest].map(quoted).join(" ")].join("\n")}\n`;
}

async function run({ command, npm }: Agent, { args, env }: AgentStart): Promise<number> {
  const own = Object.fromEntries(
    Object.entries({ ...process.env, ...env }).filter(([, value]) => value !== undefined),
  ) as Record<string, string>;
  const child = spawn(command, args, { stdio: "inherit", env: own });
  // The terminal sends Ctrl-C to both; the agent decides what it means.
  const ignore = (): void => undefined;
  process.on("SIGINT", ignore);
  try {
    return await new Promise((resolve, reject) => {
      child.once("error", (error: NodeJS.ErrnoException) => {
        const reason = error.code === "ENOENT" ? `npm install -g ${npm} installs it.` : error.message;
        reject(new ConfigError("agent_missing", { value: command, reason }));
      });
      child.once("exit", (code, signal) => resolve(code ?? 128 + constants.signals[signal!]));
    });
  } finally {
    process.off("SIGINT", ignore);
  }
}
