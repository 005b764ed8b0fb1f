// `pagoda serve` (or another command that listens) as a process of its own, with whatever standard error a test gives it.

import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { freePort } from "./free-port.js";
import { until } from "./until.js";

export interface ServedProcess extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly url: string;
  /** Resolves to the exit code. */
  readonly exit: Promise<number | null>;
}

/** Ready to answer when it resolves, on a port that the system chose. With "pipe" nobody reads what it says after that. */
export async function startProcess(
  args: readonly string[],
  stderr: "ignore" | "pipe" | number = "ignore",
  command: readonly string[] = ["serve", "--threads", "1"],
): Promise<ServedProcess> {
  // A file is not read here: the port must be known before.
  const port = typeof stderr === "number" ? await freePort() : 0;
  const bin = join(process.cwd(), "bin", "pagoda.js");
  const stdio: StdioOptions = ["ignore", "ignore", typeof stderr === "number" ? stderr : "pipe"];
  const child = spawn(process.execPath, [bin, ...command, "--port", String(port), ...args], { stdio });
  const exit = once(child, "exit").then(([code]) => code as number | null);
  try {
    const url = port > 0 ? `http://127.0.0.1:${port}` : await urlSaidBy(child);
    if (stderr === "ignore") child.stderr!.resume();
    const answers = async (): Promise<boolean> => {
      if (child.exitCode !== null) throw new Error(`pagoda ${command[0]} ended with ${child.exitCode}`);
      return fetch(`${url}/health`).then(
        (reply) => reply.ok,
        () => false,
      );
    };
    await until(answers, "the server answers");
    const end = async (): Promise<void> => {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
      await exit;
    };
    return { child, url, exit, [Symbol.asyncDispose]: end };
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
}

/** Where it listens, as it tells its user. */
async function urlSaidBy(child: ChildProcess): Promise<string> {
  const stderr = child.stderr!.setEncoding("utf8");
  let said = "";
  while (!/OpenAI API +\S+\/v1\n/.test(said)) {
    const piece = (stderr.read() as string | null) ?? "";
    said += piece;
    if (piece !== "") continue;
    await Promise.race([once(stderr, "readable"), once(stderr, "end")]);
    if (stderr.readableEnded) throw new Error(`pagoda ended before it listened: ${said}`);
  }
  stderr.removeAllListeners("readable");
  return /OpenAI API +(\S+)\/v1\n/.exec(said)![1]!;
}
