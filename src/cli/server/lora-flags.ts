// vLLM's flags for adapters, as `pagoda serve` takes them: --lora-modules NAME=PATH... is --adapter NAME=PATH. There is nothing to enable,
// and no rank or number of adapters to declare: those flags are left out.

const WITHOUT_VALUE = new Set(["--enable-lora", "--no-enable-lora"]);
const WITH_VALUE = new Set(["--max-lora-rank", "--max-loras", "--max-cpu-loras", "--lora-dtype"]);

/** NAME=PATH or JSON; no flag, and no model's name. */
const MODULE = /^(?!-)[^=]+=|^\{/;

export function fromVllmFlags(args: readonly string[]): string[] {
  const out: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const [flag, given] = splitOnce(args[i]!);
    if (WITHOUT_VALUE.has(flag)) continue;
    if (WITH_VALUE.has(flag)) {
      if (given === null) i++;
    } else if (flag === "--lora-modules") {
      if (given !== null) out.push("--adapter", moduleOf(given));
      while (MODULE.test(args[i + 1] ?? "")) out.push("--adapter", moduleOf(args[++i]!));
    } else out.push(args[i]!);
  }
  return out;
}

function splitOnce(arg: string): [string, string | null] {
  const equals = arg.indexOf("=");
  return equals < 0 || !arg.startsWith("--") ? [arg, null] : [arg.slice(0, equals), arg.slice(equals + 1)];
}

/** NAME=PATH, or the same as JSON. */
function moduleOf(text: string): string {
  if (!text.startsWith("{")) return text;
  try {
    const { name, path } = JSON.parse(text) as { name?: string; path?: string };
    return `${name}=${path}`;
  } catch {
    return text; // refused with what was expected
  }
}
