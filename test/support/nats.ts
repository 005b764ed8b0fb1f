// A real nats-server on loopback, for tests of the cluster: found, started, ended, started again with the same state.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "./until.js";

const EXECUTABLE = ["/usr/sbin/nats-server", "/usr/local/bin/nats-server", "/usr/bin/nats-server"].find(existsSync);

/** Why the cluster cannot be tested here; false when it can. */
export function whyNoNats(): string | false {
  return EXECUTABLE === undefined ? "no nats-server here: install it (Debian: nats-server)" : false;
}

export class TestNats implements AsyncDisposable {
  readonly #args: readonly string[];
  readonly #dir = mkdtempSync(join(tmpdir(), "pagoda-nats-"));
  #port = -1; // its own choice the first time, and the same ever after
  #child: ChildProcess | null = null;

  private constructor(args: readonly string[]) {
    this.#args = ["-a", "127.0.0.1", "-js", "-sd", this.#dir, "--ports_file_dir", this.#dir, ...args];
  }

  static async start(args: readonly string[] = []): Promise<TestNats> {
    const nats = new TestNats(args);
    await nats.start();
    return nats;
  }

  get url(): string {
    return `nats://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<void> {
    const child = spawn(EXECUTABLE!, [...this.#args, "-p", String(this.#port)], { stdio: "ignore" });
    this.#child = child;
    await until(() => {
      if (child.exitCode !== null) throw new Error(`nats-server ended with ${child.exitCode}`);
      this.#port = this.#portSaid() ?? this.#port;
      return this.#port > 0 && answers(this.#port);
    }, "nats-server listens");
  }

  /** From the file that it writes once it listens. */
  #portSaid(): number | null {
    const file = readdirSync(this.#dir).find((name) => name.endsWith(".ports"));
    const text = file === undefined ? "" : readFileSync(join(this.#dir, file), "utf8");
    const port = /:(\d+)"/.exec(text)?.[1];
    return port === undefined ? null : Number(port);
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
  });
}
