// The engine as its callers see it: text in, text out. Validates, renders templates and tokenises here, on the caller's thread;
// everything else happens behind the host, over a line (engine-connection.ts).

import { randomBytes } from "node:crypto";
import type { PrefixChange } from "../../cache/prefix-journal.js";
import type { Schema, SchemaOutput } from "../../chat/schema.js";
import type { EngineConfig } from "../../config/engine-config.js";
import { errorFor, RequestError } from "../../core/errors.js";
import { numbersIn } from "../../core/math.js";
import { uniformAt } from "../../core/random.js";
import { strftime } from "../../templates/format/strftime.js";
import type { Asker } from "../../threads/task-thread.js";
import type { ChatPrompt, ChatTemplate, RenderOptions, TemplateMessage } from "../../tokenizer/chat-template.js";
import { StreamDetokenizer } from "../../tokenizer/stream-detokenizer.js";
import type { EncodeOptions } from "../../tokenizer/tokenizer.js";
import type {
  ChatGeneration,
  ChatMessage,
  ChatOptions,
  ChatRun,
  ObjectRequest,
  ObjectResult,
  RunOptions,
  ToolSchemas,
} from "../chat-types.js";
import type { PagesTaken } from "../core/pages/page-exchange.js";
import type { EngineFacts, Loaded, RequestKind, TextFields } from "../messages.js";
import type { PictureOptions, PicturePrompt, PromptMessage, PromptOptions } from "../served-engine.js";
import type {
  AdapterInfo,
  CachePicture,
  EmbedOptions,
  EmbedResult,
  EngineHealth,
  EngineStats,
  GenerateOptions,
  Generation,
  Inspector,
  ModelInfo,
  RerankOptions,
  RerankResult,
  ScoreOptions,
  ScoreResult,
  StepPlan,
  StepRow,
  TemplateOptions,
  TextOptions,
  TextTokenizer,
} from "../types.js";
import { AdapterNames } from "./adapter-names.js";
import { EmbeddingReader } from "./call-reader.js";
import { chatAnswer, rawAnswer, refusedAnswer, renderedChat } from "./chat/answers.js";
import { ToolRun } from "./chat/tool-run.js";
import { type ChatCheckpoint, openChatCheckpoint } from "./chat-checkpoint.js";
import { EngineConnection, type OnProgress } from "./engine-connection.js";
import { TextGeneration } from "./generation.js";
import { type StartHost, startHost } from "./host.js";
import { modelInfo } from "./model-info.js";
import { generateObject } from "./object.js";
import { ClientEyes } from "./pictures/eyes.js";
import { renderAside, renderNow } from "./pictures/rendering.js";
import { type Deliver, type RelayCall, type RelayEngine, RelayReader, textFieldsOf } from "./relay.js";
import { TextTasks } from "./text-tasks.js";
import { TextThread } from "./text-thread.js";
import { Throttle } from "./throttle.js";
import { addMessage, type CallBounds, checkResumed } from "./validate.js";
import { verdictPrompt } from "./verdict-prompt.js";

/** Characters that are tokenised in about ten milliseconds. */
const LONG_TEXT = 16_384;

/** An engine behind a host: a thread of its own, the caller's thread, or other machines. */
export class HostedEngine implements RelayEngine {
  readonly #config: EngineConfig;
  readonly #checkpoint: ChatCheckpoint;
  readonly #texts: TextTasks;
  readonly #aside: TextThread;
  readonly #eyes: ClientEyes;
  readonly #turns = new Throttle(LONG_TEXT);
  readonly #seed: number;
  readonly #connection: EngineConnection;
  readonly #adapters = new AdapterNames();
  readonly tokenizer: TextTokenizer = {
    encode: (text, options = {}) => this.#checkpoint.requireTokenizer().encode(text, options),
    decode: (ids) => this.#checkpoint.requireTokenizer().decode(ids),
    bytes: (id) => this.#checkpoint.requireTokenizer().tokenBytes(id),
  };
  readonly inspect: Inspector = {
    cache: () => this.#query<CachePicture>("cache"),
    history: () => this.#connection.log.history(),
    steps: ({ signal } = {}) => this.#connection.log.follow(signal),
    plan: (step) => this.#plan(step),
  };

  constructor(
    config: EngineConfig,
    onProgress: OnProgress | null,
    start: StartHost = startHost,
    checkpoint: ChatCheckpoint = openChatCheckpoint(config.model, config.images ? (config.mmproj ?? undefined) : null),
  ) {
    this.#config = config;
    this.#seed = config.seed ?? randomBytes(6).readUIntBE(0, 6);
    this.#checkpoint = checkpoint;
    this.#texts = new TextTasks(
      this.#checkpoint,
      () => this.#connection.facts,
      (...text) => this.tokenizeAside(...text),
      (...pair) => this.#verdict(...pair),
      (...text) => this.#runText(...text),
      (count) => this.#connection.requireRoom(count),
    );
    this.#aside = new TextThread(config.model);
    const held = () => this.#connection.pictureBytes;
    this.#eyes = new ClientEyes(config, this.#checkpoint, () => this.#connection.facts, held);
    this.#connection = new EngineConnection(config, start, onProgress);
    this.#connection.onAdapters = (adapters) => this.#adapters.replace(adapters);
    this.#checkpoint.tokenizer?.encode("its tables are made while the weights are loaded");
  }

  get ready(): Promise<void> {
    return this.#connection.ready;
  }

  get model(): ModelInfo {
    return modelInfo(this.#connection.facts, this.#checkpoint);
  }

  get facts(): EngineFacts {
    return this.#connection.facts;
  }

  get eosIds(): readonly number[] {
    return this.#checkpoint.eosIds;
  }

  get chatTemplate(): string | null {
    return this.#checkpoint.chatTemplate?.source ?? null;
  }

  health(): EngineHealth {
    return this.#connection.health();
  }

  generate(
    prompt: string | readonly number[] | readonly ChatMessage[],
    options: GenerateOptions & TemplateOptions = {},
  ): Generation {
    if (isConversation(prompt)) return rawAnswer(this, (...asked) => this.submit(...asked), prompt, options);
    try {
      return this.submit(typeof prompt === "string" ? this.tokenizer.encode(prompt) : prompt, options);
    } catch (error) {
      return refusedAnswer(options, error);
    }
  }

  chat<Schemas extends ToolSchemas = Record<never, never>>(
    messages: string | readonly ChatMessage[],
    options: ChatOptions<Schemas> = {},
  ): ChatGeneration<Schemas> {
    return chatAnswer(this, messages, options as ChatOptions) as unknown as ChatGeneration<Schemas>;
  }

  run<Schemas extends ToolSchemas>(
    messages: string | readonly ChatMessage[],
    options: RunOptions<Schemas>,
  ): ChatRun<Schemas> {
    return new ToolRun(this, messages, options as RunOptions) as unknown as ChatRun<Schemas>;
  }

  object<S extends Schema>(request: ObjectRequest<S>): Promise<ObjectResult<SchemaOutput<S>>> {
    return generateObject(this, request);
  }

  prepareImages(messages: readonly PromptMessage[], asker: Asker = {}): Promise<PromptMessage[]> {
    return this.#eyes.prepare(messages, asker);
  }

  renderChat(
    messages: string | readonly ChatMessage[],
    options: TemplateOptions & Pick<ChatOptions, "tools"> = {},
  ): Promise<string> {
    return renderedChat(this, messages, options);
  }

  renderProbe(messages: readonly TemplateMessage[], tools: readonly unknown[]): string {
    return this.#template().render(messages, renderOptionsOf({ tools }));
  }

  renderPrompt(messages: readonly PromptMessage[], options: PromptOptions = {}): PicturePrompt {
    const template = this.#template();
    const given = renderOptionsOf(options);
    return this.#asConfigured(
      renderNow(this.#eyes.rendering(messages), (shown) => template.renderPrompt(shown, given)),
    );
  }

  async renderAside(
    messages: readonly PromptMessage[],
    options: PromptOptions = {},
    asker: Asker = {},
  ): Promise<PicturePrompt> {
    if (!this.#config.worker) return this.renderPrompt(messages, options);
    const template = this.#template();
    const given = renderOptionsOf(options);
    const render = async (shown: readonly TemplateMessage[]): Promise<ChatPrompt> =>
      template.glance(shown, given) ?? (await this.#aside.run("render", { messages: shown, options: given }, asker));
    return this.#asConfigured(await renderAside(this.#eyes.rendering(messages), render));
  }

  #template(): ChatTemplate {
    const { chatTemplate, name } = this.#checkpoint;
    if (chatTemplate === null) throw new RequestError("no_chat_template", { model: name });
    return chatTemplate;
  }

  #asConfigured(prompt: PicturePrompt): PicturePrompt {
    return this.#config.controlTokensInContent ? { ...prompt, content: [] } : prompt;
  }

  async embed(inputs: readonly (string | readonly number[])[], options: EmbedOptions = {}): Promise<EmbedResult> {
    return this.#texts.embed(inputs, options);
  }

  async score(pairs: readonly (readonly [string, string])[], options: ScoreOptions = {}): Promise<ScoreResult> {
    return this.#texts.score(pairs, options);
  }

  async rerank(query: string, documents: readonly string[], options: RerankOptions = {}): Promise<RerankResult> {
    return this.#texts.rerank(query, documents, options);
  }

  async tokenizeAside(text: string, options: EncodeOptions = {}, signal?: AbortSignal, client = ""): Promise<number[]> {
    if (!this.#config.worker) return this.tokenizer.encode(text, options);
    this.#checkpoint.requireTokenizer(); // says so at once where there is none
    if (text.length > LONG_TEXT)
      return numbersIn(await this.#aside.run("encode", { text, options }, { signal, client }));
    await this.#turns.acquire(text.length);
    if (signal?.aborted) throw errorFor("aborted");
    return this.tokenizer.encode(text, options);
  }

  /** A pair for a reranker that is asked for a verdict. */
  async #verdict(query: string, document: string, limit: number, options: ScoreOptions): Promise<number[]> {
    const { instruction, signal, client = "" } = options;
    const length = query.length + document.length;
    if (this.#config.worker && length > LONG_TEXT)
      return numbersIn(await this.#aside.run("verdict", { query, document, instruction, limit }, { signal, client }));
    await this.#turns.acquire(length);
    if (signal?.aborted) throw errorFor("aborted");
    return verdictPrompt(this.#checkpoint, query, document, instruction, limit);
  }

  get adapters(): readonly AdapterInfo[] {
    return this.#adapters.list();
  }

  loadAdapter(name: string, path: string, { pin = false } = {}): Promise<AdapterInfo> {
    return this.#adapters.load({ name, path, scale: 1, isPinned: pin }, (adapter) =>
      this.#connection.request<Loaded>((seq) => ({ type: "load_adapter", seq, adapter })),
    );
  }

  async unloadAdapter(name: string): Promise<void> {
    this.#adapters.remove(name);
    await this.#connection.request((seq) => ({ type: "unload_adapter", seq, name }));
  }

  warm(): void {
    if (this.facts.task === "generate") this.#connection.send({ type: "warm" });
  }

  sleep(): Promise<boolean> {
    return this.#connection.sleep();
  }

  sleepAfter(seconds?: number | null): void {
    this.#connection.sleepAfter(seconds);
  }

  get asleepAtMs(): number | null {
    return this.#connection.asleepAtMs;
  }

  stats(): Promise<EngineStats> {
    return this.#query<EngineStats>("stats");
  }

  async #plan(step: number): Promise<readonly StepPlan[] | null> {
    const record = this.#connection.log.history().find((past) => past.step === step);
    return record === undefined ? null : this.#query<readonly StepPlan[]>("plan", record.rows);
  }

  relay(call: RelayCall, deliver: Deliver): (index: number) => void {
    const { options, resumed } = call;
    const message = addMessage(this.#bounds(), call.kind, call.prompt, options, textFieldsOf(call));
    if (resumed !== null) checkResumed(resumed, message, this.#connection.facts);
    const line = this.#connection.channelFor(message.callId);
    const reader = new RelayReader(line, call.kind === "generate" ? message.sampling.n : 1, deliver);
    this.#connection.open(resumed === null ? message : { ...message, resumed }, reader, options);
    return (index) => (index < 0 ? reader.fail(errorFor("aborted")) : line.onAbort(index));
  }

  lendPages(prompt: Int32Array, salt: string, from: number, maxBytes: number): Promise<Uint8Array> {
    return this.#connection.request((seq) => ({ type: "lend_pages", seq, prompt, salt, from, maxBytes }));
  }

  takePages(prompt: Int32Array, salt: string, bytes: Uint8Array): Promise<PagesTaken> {
    return this.#connection.request((seq) => ({ type: "take_pages", seq, prompt, salt, bytes }));
  }

  watchPrefixes(listener: (change: PrefixChange) => void): void {
    this.#connection.watchPrefixes(listener);
  }

  async close(): Promise<void> {
    await Promise.all([this.#connection.close(), this.#aside.close(), this.#eyes.close()]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #withPredictionIds(options: GenerateOptions): GenerateOptions {
    const { speculative } = options;
    if (typeof speculative !== "object" || typeof speculative?.prediction !== "string") return options;
    const prediction = this.tokenizer.encode(speculative.prediction, { addSpecialTokens: false });
    return { ...options, speculative: { ...speculative, prediction } };
  }

  submit(ids: readonly number[], options: GenerateOptions & PictureOptions): TextGeneration {
    if (this.#connection.facts.task !== "generate") {
      const { name: model } = this.#checkpoint;
      throw new RequestError("task_unsupported", { model, task: "generate", reason: "it embeds or scores texts." });
    }
    const { pictures = [] } = options;
    const checked = addMessage(this.#bounds(), "generate", ids, this.#withPredictionIds(options));
    const message = pictures.length === 0 ? checked : { ...checked, media: this.#eyes.mediaOf(ids, pictures) };
    const { callId, sampling } = message;
    const tokenizer = this.#checkpoint.requireTokenizer();
    const { skipSpecialTokens = true } = options;
    const generation = new TextGeneration({
      id: callId,
      n: sampling.n,
      wantsLogprobs: sampling.logprobs !== null,
      makeDetokenizer: () =>
        new StreamDetokenizer(tokenizer, { stop: sampling.stop, minTokens: sampling.minTokens, skipSpecialTokens }),
      ...this.#connection.channelFor(callId),
    });
    this.#connection.open(message, generation, options);
    return generation;
  }

  #runText(kind: RequestKind, ids: readonly number[], fields: TextFields, options: TextOptions): Promise<Float32Array> {
    const { salt = "", client = "", adapter } = options;
    const asked = { maxTokens: 1, salt, client, ...(adapter === undefined ? {} : { adapter }) };
    const message = addMessage(this.#bounds(), kind, ids, asked, fields);
    const reader = new EmbeddingReader(this.#connection.channelFor(message.callId));
    this.#connection.open(message, reader, options);
    return reader.vector;
  }

  #bounds(): CallBounds {
    return {
      facts: this.facts,
      suggested: this.#checkpoint.generation.sampling,
      isRemote: this.#config.worker,
      adapterOf: (choice) => this.#adapters.refOf(choice),
      isTaken: (callId) => this.#connection.has(callId),
      freshSeed: () => this.#freshSeed(),
    };
  }

  /** A seed that no caller chose: drawn from the engine's own, in order of arrival. */
  #freshSeed(): number {
    return Math.floor(uniformAt(this.#seed, 0xf5, this.#connection.numCalls) * Number.MAX_SAFE_INTEGER);
  }

  #query<T>(what: "stats" | "cache" | "plan", rows: readonly StepRow[] = []): Promise<T> {
    return this.#connection.request((seq) => ({ type: "query", seq, what, rows }));
  }

  /** Test hook: a fault in the next step, or of the thread. */
  injectFault(where: "step" | "thread"): void {
    this.#connection.send({ type: "fault", where });
  }
}

function renderOptionsOf(options: PromptOptions): RenderOptions {
  return {
    continueFinalMessage: options.continueFinalMessage === true,
    ...(options.tools === undefined ? {} : { tools: options.tools }),
    // Llama 3.1's template and kin say a date of their own where they are told none.
    variables: { date_string: strftime("%d %b %Y", new Date()), ...options.templateArgs },
  };
}

function isConversation(prompt: string | readonly number[] | readonly ChatMessage[]): prompt is readonly ChatMessage[] {
  return Array.isArray(prompt) && typeof prompt[0] === "object";
}
