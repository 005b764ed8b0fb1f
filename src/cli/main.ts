// The `pagoda` command: finds the subcommand, runs it, turns errors into one clear line and an exit code.

import { packageVersion } from "../config/version.js";
import { PagodaError } from "../core/errors.js";
import { COMMANDS } from "./commands.js";

async function main(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args;
  if (name === undefined || name === "--help" || name === "-h" || name === "help") {
    process.stdout.write(usage());
    return 0;
  }
  if (name === "--version" || name === "-v" || name === "-V") {
    process.stdout.write(`pagoda ${packageVersion()}\n`);
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
  return `pagoda ${packageVersion()}: an LLM inference engine in TypeScript\n\nUsage: pagoda COMMAND [options]\n\n${lines.join("\n")}\n\npagoda COMMAND --help shows the options of a command.\n`;
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
