// A way to a server that can be cut: nothing is closed, nothing arrives. What was under way when it was cut arrives when it is healed.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export class CutProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #port: number;
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  readonly #unanswered = new Set<Socket>();
  #isCut = false;

  private constructor(port: number) {
    this.#port = port;
    this.#server = createServer((socket) => this.#accept(socket));
  }

  /** To a server on this machine. */
  static async start(url: string): Promise<CutProxy> {
    const proxy = new CutProxy(Number(new URL(url).port));
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get url(): string {
    return `nats://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  cut(): void {
    this.#isCut = true;
    for (const [a, b] of this.#pairs) {
      a.unpipe(b).pause();
      b.unpipe(a).pause();
    }
  }

  heal(): void {
    this.#isCut = false;
    for (const [a, b] of this.#pairs) {
      a.pipe(b);
      b.pipe(a);
    }
    for (const socket of this.#unanswered) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of [...this.#pairs].flat()) socket.destroy();
    for (const socket of this.#unanswered) socket.destroy();
    this.#server.close();
  }

  #accept(socket: Socket): void {
    socket.on("error", () => undefined);
    if (this.#isCut) {
      this.#unanswered.add(socket);
      socket.on("close", () => this.#unanswered.delete(socket));
      return;
    }
    const other = connect(this.#port, "127.0.0.1");
    const pair = [socket, other] as const;
    this.#pairs.add(pair);
    other.on("error", () => undefined);
    for (const one of pair)
      one.on("close", () => {
        this.#pairs.delete(pair);
        socket.destroy();
        other.destroy();
      });
    socket.pipe(other);
    other.pipe(socket);
  }
}
