// A server whose model says what a test tells it to: everything but the model's steps is real (templates, tokenizer, validation, text of
// tokens), and nothing is loaded, so that whole answers can be compared to the letter. Asked without a network.

import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { type Logger, pino } from "pino";
import { engineConfig } from "../../src/config/engine-config.js";
import type { PositionLogprobs } from "../../src/core/sampling.js";
import type { EngineHost } from "../../src/engine/client/host.js";
import { HostedEngine } from "../../src/engine/client/hosted-engine.js";
import type { AddMessage, EngineFacts, FromEngine, ToEngine } from "../../src/engine/messages.js";
import type { RequestTrace } from "../../src/engine/types.js";
import type { HttpService } from "../../src/server/http-service.js";
import { createServer, type ServerOptions } from "../../src/server/server.js";
import { EMPTY_OUTPUT, OutputWriter, type RequestOutput } from "./outputs.js";
import { writeTinyCheckpoint } from "./tiny-checkpoint.js";

const MODEL = writeTinyCheckpoint({ layers: 1 });
const FACTS: Omit<EngineFacts, "config"> = {
  ...{ architecture: "llama", vocabSize: 260, hiddenSize: 2, isBidirectional: false, numLabels: 0 },
  ...{
    maxContext: 512,
    pageSize: 16,
    poolTokens: 512,
    device: "told",
    deterministic: true,
    pageBytes: 0,
    identity: "",
  },
  ...{ vision: null, predictor: null },
  task: "generate",
  scorePooling: "last",
};

/** Of every request, but for its counts. */
export const TRACE = {
  ...{
    chunks: 1,
    steps: 2,
    preemptions: 4,
    drafts: 0,
    draftTokens: 0,
    acceptedTokens: 0,
    acceptedMs: 1,
    queuedMs: 2.24,
  },
  ...{ timeToFirstTokenMs: 12.5, totalMs: 52.5, tokensPerSecond: 100 },
};

/** What the model says to a sample of a request. */
export interface Said {
  readonly text: string;
  /** The rest of it, which comes once the test lets it go on. */
  readonly rest?: string;
  readonly finishReason?: "stop" | "length";
  readonly stopToken?: number;
  readonly cachedTokens?: number;
  readonly error?: RequestOutput["error"];
}

export class ToldServer implements AsyncDisposable {
  /** Everything that the engine was asked for. */
  readonly asked: AddMessage[] = [];
  readonly aborted: string[] = [];
  readonly log: Record<string, unknown>[] = [];
  readonly engine: HostedEngine;
  server!: HttpService;
  says: (message: AddMessage, index: number) => Said = () => ({ text: "Hi" });
  vector = Float32Array.of(3, 4);
  /** What the engine answers to questions. */
  knows: Record<string, unknown> = {};
  #listener!: (message: FromEngine) => void;
  #rest: RequestOutput[] = [];
  readonly #writer = new OutputWriter();

  /** What was held back comes. */
  goOn(): void {
    const outputs = this.#rest;
    this.#rest = [];
    if (outputs.length > 0) this.#listener(this.#writer.message(outputs));
  }

  private constructor(facts: Partial<EngineFacts>) {
    const config = engineConfig({ model: MODEL, worker: false, seed: 1 });
    const start = (_: unknown, listener: (message: FromEngine) => void): EngineHost => {
      this.#listener = listener;
      queueMicrotask(() => listener({ type: "ready", facts: { ...FACTS, ...facts, config } }));
      return { post: (message) => this.#take(message), close: async () => undefined };
    };
    this.engine = new HostedEngine(config, null, start);
  }

  static async start(options: ServerOptions = {}, facts: Partial<EngineFacts> = {}): Promise<ToldServer> {
    const told = new ToldServer(facts);
    await told.engine.ready;
    const logger: Logger = pino({ level: "debug" }, { write: (line: string) => void told.log.push(JSON.parse(line)) });
    const all = { logger, servedModelName: ["tiny", "other"], ...options };
    told.server = await createServer(told.engine, all).service();
    return told;
  }

  ask(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
    const bytes = typeof body === "string" ? body : JSON.stringify(body);
    const all = { host: "localhost", "content-type": "application/json", ...headers };
    const incoming = Readable.from(body === undefined ? [] : [Buffer.from(bytes)]) as IncomingMessage;
    Object.assign(incoming, { headers: all, socket: { remoteAddress: "10.0.0.7" } });
    return Promise.resolve(this.server.app.request(path, { method, headers: all }, { incoming }));
  }

  // biome-ignore lint/suspicious/noExplicitAny: answers of many shapes, each compared whole
  async post(path: string, body: unknown, headers?: Record<string, string>): Promise<[status: number, body: any]> {
    const reply = await this.ask("POST", path, body, headers);
    return [reply.status, await reply.json()];
  }

  /** The events of a stream, or the lines. */
  // biome-ignore lint/suspicious/noExplicitAny: likewise
  async stream(path: string, body: object, headers?: Record<string, string>): Promise<any[]> {
    const text = await (await this.ask("POST", path, { stream: true, ...body }, headers)).text();
    const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("event: "));
    return lines.map((line) => (line === "data: [DONE]" ? "done" : JSON.parse(line.replace(/^data: /, ""))));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.close(0);
    await this.engine.close();
  }

  #take(message: ToEngine): void {
    if (message.type === "add") {
      this.asked.push(message);
      queueMicrotask(() => this.#answer(message));
    } else if (message.type === "abort") this.aborted.push(`${message.callId} ${message.index}`);
    else if (message.type === "query")
      queueMicrotask(() => this.#listener({ type: "reply", seq: message.seq, value: this.knows[message.what] }));
  }

  #answer(message: AddMessage): void {
    const { kind, sampling, callId } = message;
    const numSamples = kind === "generate" ? sampling.n : 1;
    const outputs = Array.from({ length: numSamples }, (_, index): RequestOutput[] => {
      const { rest } = kind === "generate" ? this.says(message, index) : {};
      const whole = { ...this.#output(message, index), callId, index };
      if (rest === undefined) return [whole];
      const tokens = this.engine.tokenizer.encode(rest);
      const logprobs = whole.logprobs === null ? null : tokens.map((id) => logprobsOf(id, sampling.logprobs!));
      this.#rest.push({ ...whole, tokens, logprobs });
      return [{ ...whole, finishReason: null, stopToken: -1, trace: null }];
    });
    this.#listener(this.#writer.message(outputs.flat()));
  }

  #output({ kind, sampling, prompt, ...message }: AddMessage, index: number): Omit<RequestOutput, "callId" | "index"> {
    const trace = (completionTokens: number, cachedTokens: number): RequestTrace => ({
      ...{ ...TRACE, promptTokens: prompt.length, completionTokens, cachedTokens },
    });
    if (kind !== "generate")
      return { ...EMPTY_OUTPUT, finishReason: "stop", vector: this.vector.slice(), trace: trace(0, 0) };
    const said = this.says({ kind, sampling, prompt, ...message }, index);
    const { finishReason = "stop", stopToken = -1, cachedTokens = 0, error = null } = said;
    const tokens = this.engine.tokenizer.encode(said.text);
    return {
      ...EMPTY_OUTPUT,
      tokens,
      logprobs: sampling.logprobs === null ? null : tokens.map((id) => logprobsOf(id, sampling.logprobs!)),
      finishReason,
      stopToken,
      promptLogprobs:
        sampling.promptLogprobs === null
          ? null
          : Array.from(prompt, (id, i) => (i === 0 ? null : logprobsOf(id, sampling.promptLogprobs!))),
      trace: trace(tokens.length, cachedTokens),
      error,
    };
  }
}

/** Of a letter: as likely as it is early in the alphabet, its successors a little less; one of them impossible. */
function logprobsOf(id: number, numTop: number): PositionLogprobs {
  const top = Array.from({ length: numTop }, (_, i) => ({ id: id + i, logprob: i === 1 ? -Infinity : -id - i }));
  return { id, logprob: -id, top };
}
