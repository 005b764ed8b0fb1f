// The `pagoda` command: finds the subcommand, runs it, turns errors into one clear line and an exit code.

import { packageVersion } from "../config/version.js";
import { errorFor, PagodaError } from "../core/errors.js";
import { printable } from "../core/printable.js";
import { suggest } from "../core/suggest.js";
import { COMMANDS, GROUPS } from "./commands.js";

/** What other engines call a command of ours. */
const ELSEWHERE: Readonly<Record<string, string>> = { run: "chat", start: "serve", complete: "generate", rm: "stop" };

async function main(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args;
  if (name === "help" && rest[0] !== undefined) return main([rest[0], "--help"]);
  if (name === undefined || name === "--help" || name === "-h" || name === "help") {
    process.stdout.write(usage());
    return 0;
  }
  if (name === "--version" || name === "-v" || name === "-V") {
    process.stdout.write(`pagoda ${packageVersion()}\n`);
    return 0;
  }
  if (!Object.hasOwn(COMMANDS, name)) {
    const known = Object.hasOwn(ELSEWHERE, name)
      ? `Did you mean ${ELSEWHERE[name]}?`
      : suggest(name, Object.keys(COMMANDS));
    throw errorFor("unknown_command", { value: name, known });
  }
  const run = await COMMANDS[name]!.load();
  return run(rest);
}

function usage(): string {
  const groups = Object.entries(GROUPS).map(
    ([title, names]) =>
      `${title}:\n${names.map((name) => `  ${name.padEnd(10)} ${COMMANDS[name]!.summary}`).join("\n")}`,
  );
  const examples = ["pagoda chat unsloth/Qwen3-0.6B-GGUF:Q4_K_M", "pagoda serve ./model.gguf --api-key secret"];
  return `pagoda ${packageVersion()}: an LLM inference engine in TypeScript

Usage: pagoda COMMAND [options]

${examples.map((line) => `  ${line}`).join("\n")}

${groups.join("\n\n")}

pagoda COMMAND --help shows the options of a command.
`;
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
  process.stderr.write(`pagoda: ${printable(error.message)}\n`);
  process.exitCode = error.kind === "config" || error.kind === "request" ? 2 : 1;
}
