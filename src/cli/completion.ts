// `pagoda completion SHELL`: a script that completes commands, flags and the values of choices, made from the option tables.
//   bash  source <(pagoda completion bash)
//   zsh   source <(pagoda completion zsh)
//   fish  pagoda completion fish | source

import { flagOf, type OptionTable } from "../config/options.js";
import { errorFor } from "../core/errors.js";
import { COMMANDS } from "./commands.js";

export const SHELLS = ["bash", "zsh", "fish"] as const;

interface CommandWords {
  readonly name: string;
  readonly summary: string;
  readonly options: OptionTable;
  readonly words: readonly string[];
}

export async function completionCommand(args: readonly string[]): Promise<number> {
  const [shell = ""] = args;
  if (args.length !== 1 || shell === "--help" || shell === "-h") {
    process.stdout.write(
      "Usage: pagoda completion bash|zsh|fish\n\nbash, zsh: source <(pagoda completion bash)\nfish: pagoda completion fish | source\n",
    );
    return args.length === 1 ? 0 : 2;
  }
  process.stdout.write(await completionScript(shell));
  return 0;
}

export async function completionScript(shell: string): Promise<string> {
  if (!(SHELLS as readonly string[]).includes(shell))
    throw errorFor("wrong_usage", {
      reason: `There is no completion for ${shell}.`,
      usage: "completion bash|zsh|fish",
    });
  const commands = await Promise.all(
    Object.entries(COMMANDS).map(async ([name, command]) => ({
      name,
      summary: command.summary,
      options: await command.options(),
      words: (await command.words?.()) ?? [],
    })),
  );
  return shell === "fish" ? fishScript(commands) : bashScript(commands, shell === "zsh");
}

/** zsh runs bash's completions once it is told to. */
function bashScript(commands: readonly CommandWords[], isZsh: boolean): string {
  const cases = commands.map(({ name, options, words }) => {
    const values = Object.entries(options)
      .filter(([, row]) => row.choices !== undefined)
      .map(([key, row]) => `        ${patternOf(key, row.short)}) words="${row.choices!.join(" ")}" ;;`);
    const all = [...words, ...flagsOf(options), "--help"].join(" ");
    return `    ${name})\n      words="${all}"\n      case "$previous" in\n${values.join("\n")}\n      esac ;;`;
  });
  return `${isZsh ? "autoload -U +X bashcompinit && bashcompinit\n" : ""}_pagoda() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" words=""
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then words="${commands.map(({ name }) => name).join(" ")} --help --version"; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _pagoda pagoda
`;
}

function fishScript(commands: readonly CommandWords[]): string {
  const lines = [
    "complete -c pagoda -n __fish_use_subcommand -s h -l help",
    "complete -c pagoda -n __fish_use_subcommand -l version",
  ];
  for (const { name, summary, options, words } of commands) {
    lines.push(`complete -c pagoda -f -n __fish_use_subcommand -a ${name} -d '${quoted(summary)}'`);
    const when = `-n '__fish_seen_subcommand_from ${name}'`;
    for (const word of words) lines.push(`complete -c pagoda -f ${when} -a ${word}`);
    for (const [key, row] of Object.entries(options)) {
      const short = row.short === undefined ? "" : ` -s ${row.short}`;
      const value =
        row.type === "boolean" ? "" : row.choices === undefined ? " -r" : ` -x -a '${row.choices.join(" ")}'`;
      lines.push(`complete -c pagoda ${when}${short} -l ${flagOf(key).slice(2)}${value} -d '${quoted(row.help)}'`);
    }
  }
  return `${lines.join("\n")}\n`;
}

function flagsOf(options: OptionTable): string[] {
  return Object.entries(options).flatMap(([key, { short }]) =>
    short === undefined ? [flagOf(key)] : [flagOf(key), `-${short}`],
  );
}

function patternOf(key: string, short: string | undefined): string {
  return short === undefined ? flagOf(key) : `${flagOf(key)}|-${short}`;
}

function quoted(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("'", "\\'");
}
