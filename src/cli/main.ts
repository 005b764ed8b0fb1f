// The `pagoda` command: finds the subcommand, runs it, turns errors into one clear line and an exit code.

import { readFileSync } from "node:fs";
import { PagodaError } from "../core/errors.js";

interface Command {
  readonly summary: string;
  /** Loaded when run, so that `pagoda --help` does not load an engine. */
  readonly load: () => Promise<(args: readonly string[]) => Promise<number>>;
}

const COMMANDS: Readonly<Record<string, Command>> = {
  generate: {
    summary: "continue a prompt or answer it",
    load: async () => (await import("./generate.js")).generateCommand,
  },
  serve: {
    summary: "serve the OpenAI API and a dashboard",
    load: async () => (await import("./serve.js")).serveCommand,
  },
  chat: { summary: "talk to a model in the terminal", load: async () => (await import("./chat.js")).chatCommand },
  explain: {
    summary: "show how requests become chunks, batches and pages",
    load: async () => (await import("./explain/explain.js")).explainCommand,
  },
  inspect: {
    summary: "look at a checkpoint: shape, tensors, memory",
    load: async () => (await import("./inspect.js")).inspectCommand,
  },
  pull: {
    summary: "fetch a model from the Hugging Face hub",
    load: async () => (await import("./pull/pull.js")).pullCommand,
  },
  list: { summary: "list the models in the cache", load: async () => (await import("./list.js")).listCommand },
  bench: {
    summary: "measure speed: throughput, latency, serve, modes, attention, matmul",
    load: async () => (await import("./bench/bench.js")).benchCommand,
  },
  verify: {
    summary: "check a model against its golden.json",
    load: async () => (await import("./verify.js")).verifyCommand,
  },
};

async function main(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args;
  if (name === undefined || name === "--help" || name === "-h" || name === "help") {
    process.stdout.write(usage());
    return 0;
  }
  if (name === "--version" || name === "-v") {
    process.stdout.write(`pagoda ${version()}\n`);
    return 0;
  }
  const command = COMMANDS[name];
  if (command === undefined) {
    process.stderr.write(`pagoda: unknown command ${name}. Commands: ${Object.keys(COMMANDS).join(", ")}.\n`);
    return 2;
  }
  const run = await command.load();
  return run(rest);
}

function usage(): string {
  const lines = Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(10)} ${summary}`);
  return `pagoda ${version()}: an LLM inference engine in TypeScript\n\nUsage: pagoda COMMAND [options]\n\n${lines.join("\n")}\n\npagoda COMMAND --help shows the options of a command.\n`;
}

function version(): string {
  const file = new URL("../../../package.json", import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}

// A closed pipe (`pagoda ... | head`) is not an error of ours.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof PagodaError)) throw error;
  process.stderr.write(`pagoda: ${error.message}\n`);
  process.exitCode = error.kind === "config" || error.kind === "request" ? 2 : 1;
}
