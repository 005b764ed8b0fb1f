// `pagoda serve` (or another command that listens) as a process of its own, with whatever standard error a test gives it.

import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { until } from "./test-server.js";

export interface ServedProcess extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly url: string;
  /** Resolves to the exit code. */
  readonly exit: Promise<number | null>;
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as { port: number };
  probe.close();
  await once(probe, "close");
  return port;
}

/** Ready to answer when it resolves. */
export async function startProcess(
  args: readonly string[],
  stderr: "ignore" | "pipe" | number = "ignore",
  command: readonly string[] = ["serve", "--threads", "1"],
): Promise<ServedProcess> {
  const port = await freePort();
  const bin = join(process.cwd(), "bin", "pagoda.js");
  const stdio: StdioOptions = ["ignore", "ignore", stderr];
  const child = spawn(process.execPath, [bin, ...command, "--port", String(port), ...args], { stdio });
  const exit = once(child, "exit").then(([code]) => code as number | null);
  const url = `http://127.0.0.1:${port}`;
  const answers = async (): Promise<boolean> =>
    child.exitCode !== null ||
    (await fetch(`${url}/health`).then(
      (reply) => reply.ok,
      () => false,
    ));
  await until(answers, "the server answers").catch((error: unknown) => {
    child.kill("SIGKILL");
    throw error;
  });
  return {
    child,
    url,
    exit,
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
      await exit;
    },
  };
}
