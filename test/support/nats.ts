// A real nats-server on loopback, for tests of the cluster: found, started, ended, started again with the same state.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "./free-port.js";
import { until } from "./until.js";

const EXECUTABLE = ["/usr/sbin/nats-server", "/usr/local/bin/nats-server", "/usr/bin/nats-server"].find(existsSync);

/** Why the cluster cannot be tested here; false when it can. */
export function whyNoNats(): string | false {
  return EXECUTABLE === undefined ? "no nats-server here: install it (Debian: nats-server)" : false;
}

export class TestNats implements AsyncDisposable {
  readonly #args: readonly string[];
  readonly #dir = mkdtempSync(join(tmpdir(), "pagoda-nats-"));
  readonly #port: number; // the same ever after
  #child: ChildProcess | null = null;

  private constructor(port: number, args: readonly string[]) {
    this.#port = port;
    this.#args = ["-a", "127.0.0.1", "-p", String(port), "-js", "-sd", this.#dir, ...args];
  }

  static async start(args: readonly string[] = []): Promise<TestNats> {
    const nats = new TestNats(await freePort(), args);
    await nats.start();
    return nats;
  }

  get url(): string {
    return `nats://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<void> {
    const child = spawn(EXECUTABLE!, this.#args, { stdio: "ignore" });
    this.#child = child;
    await until(() => {
      if (child.exitCode !== null) throw new Error(`nats-server ended with ${child.exitCode}`);
      return answers(this.#port);
    }, "nats-server listens");
  }

  /** Not gently. */
  async kill(): Promise<void> {
    if (this.#child === null) return;
    const gone = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await gone;
    this.#child = null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.#dir, { recursive: true, force: true });
  }
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("data", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
    socket.once("close", () => resolve(false));
  });
}
