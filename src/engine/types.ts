// The public surface of an engine, shared by the library, the CLI and the server.

import type { AdapterStats } from "../adapters/adapter.js";
import type { GroupStats } from "../cache/cache-group.js";
import type { HostTierStats } from "../cache/host-tier.js";
import type { CacheSnapshot } from "../cache/snapshot.js";
import type { Schema, SchemaOutput } from "../chat/schema.js";
import type { Pooling } from "../core/pooling.js";
import type { FinishReason } from "../core/request.js";
import type { PositionLogprobs, SamplingParams } from "../core/sampling.js";
import type { Speculation, SpeculationMethod } from "../core/speculation.js";
import type { DeviceUsage } from "../device/device.js";
import type { ConstraintSpec } from "../grammar/constraint.js";
import type { LogitsHook } from "../sampler/sampler.js";
import type { EncodeOptions } from "../tokenizer/tokenizer.js";
import type {
  ChatGeneration,
  ChatMessage,
  ChatOptions,
  ChatRun,
  ObjectRequest,
  ObjectResult,
  RunOptions,
  ToolSchemas,
  Underway,
} from "./chat-types.js";

/** An adapter by its name; the scale multiplies what it adds. */
export type AdapterChoice = string | { readonly name: string; readonly scale?: number };

/** How one request is speculated for; what is left out is the engine's. */
export interface SpeculativeOptions extends Omit<Speculation, "prediction"> {
  /** What the answer will be like in large part, as text or token ids: guesses come from it too. */
  readonly prediction?: string | readonly number[];
}

/** How to answer one request: sampling parameters, and what is the request's own. Whatever is left out has the model's default. */
export interface GenerateOptions extends Partial<SamplingParams> {
  /** Lower numbers are admitted first, and preempted last. Default: 0. */
  readonly priority?: number;
  /** Requests share cached prefixes only with requests of the same salt: one per tenant keeps tenants apart. */
  readonly salt?: string;
  /** The name of an adapter that was loaded, or that and a factor on what it adds. Default: the base model as it is. */
  readonly adapter?: AdapterChoice;
  /**
   * Whose request it is: where several clients are served, each has its share of the steps, whatever it asks for. Default: "", one and
   * the same for all.
   */
  readonly client?: string;
  /** Aborts the request, as `abort()` of its generation does. */
  readonly signal?: AbortSignal;
  /** The name of the request in results, steps and logs; made up when left out. */
  readonly id?: string;
  /** Edits logits in place before the choice; in-process engines only (worker: false). */
  readonly editLogits?: LogitsHook;
  /** Holds the answer to a JSON schema, a regular expression or a grammar. */
  readonly constraint?: ConstraintSpec;
  /** How its tokens are guessed ahead, which changes no token of it: false or "off" for not at all. Default: as the engine does. */
  readonly speculative?: boolean | SpeculationMethod | SpeculativeOptions;
  /** Markers such as end of turn are left out of the text unless this is false. */
  readonly skipSpecialTokens?: boolean;
}

/** A piece of one sample's output. Text never ends inside a character or inside a possible stop string. */
export interface OutputChunk {
  /** Which of the n samples. */
  readonly index: number;
  readonly text: string;
  /** The parts [start, end) of the text that were guessed ahead and came true. */
  readonly guessed: readonly (readonly [start: number, end: number])[];
  readonly tokenIds: readonly number[];
  /** One entry per token id, when asked for. */
  readonly logprobs: readonly PositionLogprobs[] | null;
  /** With the first chunk of the call, when asked for; null for the first prompt token. */
  readonly promptLogprobs: readonly (PositionLogprobs | null)[] | null;
  /** Set on the last chunk of a sample. */
  readonly finishReason: FinishReason | null;
  /** The stop string or token id that ended the sample, when one did; "repetition" where `loopCount` did. */
  readonly stopReason: string | number | null;
}

/** How one request fared: what it waited for, reused and cost. */
export interface RequestTrace {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  readonly chunks: number;
  readonly steps: number;
  readonly preemptions: number;
  /** Steps that tried tokens guessed ahead, how many they tried, and those of them that are in the answer. */
  readonly drafts: number;
  readonly draftTokens: number;
  readonly acceptedTokens: number;
  /** From arrival until it joined the engine's queue, its grammar compiled. */
  readonly acceptedMs: number;
  /** From arrival to its first step. */
  readonly queuedMs: number;
  readonly timeToFirstTokenMs: number;
  readonly totalMs: number;
  readonly tokensPerSecond: number;
}

/** One of the n answers to a prompt, whole. */
export interface SampleResult {
  readonly index: number;
  readonly text: string;
  readonly tokenIds: readonly number[];
  readonly logprobs: readonly PositionLogprobs[] | null;
  readonly finishReason: FinishReason;
  readonly stopReason: string | number | null;
}

/** What a request gave, once it is over. */
export interface GenerateResult {
  readonly id: string;
  /** Of sample 0. */
  readonly text: string;
  readonly samples: readonly SampleResult[];
  /** null for the first prompt token. */
  readonly promptLogprobs: readonly (PositionLogprobs | null)[] | null;
  readonly trace: RequestTrace;
}

/** A raw answer on its way: text as the model writes it, with every sample's tokens. */
export interface Generation extends Underway<OutputChunk, GenerateResult> {}

/** What one step did. The engine keeps the last thousand. */
export interface StepRecord {
  readonly step: number;
  readonly startMs: number;
  readonly durationMs: number;
  /** Described anew whenever they are read. */
  readonly rows: readonly StepRow[];
  /** How many of its rows compute prompt tokens. */
  readonly prefills: number;
  readonly tokens: number;
  readonly budget: number;
  /** Tokens that padding this batch to a rectangle would have added. */
  readonly paddingAvoided: number;
  readonly pagesFree: number;
  readonly pagesCached: number;
  readonly pagesUsed: number;
  readonly waiting: number;
  readonly preempted: readonly string[];
}

/** One request's share of a step: `queryLen` tokens from position `start` on, of a context that then has `contextLen`. */
export interface StepRow {
  readonly id: string;
  readonly start: number;
  readonly queryLen: number;
  readonly contextLen: number;
  /** The row computes prompt tokens. */
  readonly isPrefill: boolean;
  /** Guesses that it tried, and those that became tokens; left out: it tried none. */
  readonly drafted?: number;
  readonly accepted?: number;
}

/** The attention plan of one step, for the layers with one window. */
export interface StepPlan {
  /** 0 is no window. */
  readonly window: number;
  readonly groupSize: number;
  /** Packed query rows (token, head in group) per tile. */
  readonly qTile: number;
  readonly kvChunk: number;
  readonly items: readonly PlanItem[];
  /** Tiles whose keys were split: `count` partial results are joined. */
  readonly merges: readonly { readonly row: number; readonly qStart: number; readonly count: number }[];
}

/** One work item: a q tile of a row of the step over the keys [kvStart, kvEnd). */
export interface PlanItem {
  readonly row: number;
  readonly qStart: number;
  readonly kvStart: number;
  readonly kvEnd: number;
  readonly isPartial: boolean;
}

/** The page map, the cached prefixes, and which request owns which pages of each cache group, in sequence order. */
export interface CachePicture extends CacheSnapshot {
  readonly requests: readonly { readonly id: string; readonly tables: readonly (readonly number[])[] }[];
}

/** What the engine's thread has done since its start, in milliseconds. All but `wait` is host time: while it lasts the GPU computes the step before. */
export interface HostTimes {
  /** Choosing rows, and writing them into a batch. */
  readonly schedule: number;
  /** Cutting attention into work items. */
  readonly plan: number;
  /** The step's integers to the device. */
  readonly stage: number;
  /** Writing launches and handing them to the driver, as a graph where they are one. */
  readonly launch: number;
  /** For the GPU. */
  readonly wait: number;
  /** Tokens to their requests: pages published, requests ended, outputs made. */
  readonly commit: number;
  /** Outputs to the thread that reads them. */
  readonly deliver: number;
  /** Between steps: messages that came, the event loop's own. */
  readonly loop: number;
}

/** The engine at a glance. Totals count from its start. */
export interface EngineStats {
  readonly model: string;
  readonly device: string;
  readonly running: number;
  readonly waiting: number;
  readonly steps: number;
  readonly pageSize: number;
  readonly pagesTotal: number;
  readonly pagesFree: number;
  readonly pagesCached: number;
  readonly pagesUsed: number;
  /** The same for each cache group of the model; those of a state group are slots. */
  readonly cacheGroups: readonly GroupStats[];
  /** Evicted pages in host memory; null: none are kept. */
  readonly hostTier: HostTierStats | null;
  /** What the GPU has done and holds; null: the device computes on the host. */
  readonly deviceUsage: DeviceUsage | null;
  /** null: the device computes in the engine's own thread. */
  readonly hostTimes: HostTimes | null;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  readonly paddingAvoided: number;
  readonly preemptions: number;
  readonly requestsFinished: number;
  /** Adapters in memory, and those on their way. */
  readonly adapters: readonly AdapterStats[];
  /** Memory that they may take together. */
  readonly adapterLimitBytes: number;
  readonly speculation: SpeculationStats;
  readonly pictures: PictureStats;
}

/** What the encoder of pictures did since the start, in frames: a picture is one, or several tiles. */
export interface PictureStats {
  readonly encoded: number;
  /** Taken from memory instead. */
  readonly reused: number;
  /** For their turn. */
  readonly waiting: number;
  /** Of rows in memory. */
  readonly bytes: number;
}

/** What came of guessing tokens ahead, since the start. */
export interface SpeculationStats {
  /** Rows of steps that had guesses. */
  readonly drafts: number;
  readonly draftTokens: number;
  readonly acceptedTokens: number;
  /** Of the accepted ones, a row's first, second, ... guesses. */
  readonly acceptedPerPosition: readonly number[];
}

/** The model that an engine has loaded. */
export interface ModelInfo {
  readonly name: string;
  readonly architecture: string;
  readonly vocabSize: number;
  readonly maxContext: number;
  /** Tokens of the longest prompt and answer together: the context, or less where the KV cache does not hold it. */
  readonly maxLength: number;
  /** What the checkpoint is for. Models that generate can embed too. */
  readonly task: "generate" | "embed" | "score";
  readonly hasChatTemplate: boolean;
  /** It takes pictures. */
  readonly hasEyes: boolean;
  readonly device: string;
  /** The same request has the same answer, whatever runs beside it. False on GPUs whose compiler reorders sums. */
  readonly deterministic: boolean;
  /** What requests that say nothing are sampled with, where the model has an opinion: docs/reference/sampling.md has the rest. */
  readonly sampling: Partial<SamplingParams>;
}

/** Of texts that are embedded or scored. */
export interface TextOptions {
  /** true: cut to what the model takes (its max_seq_length where it states one); a number: to that length in tokens; else refused. */
  readonly truncate?: boolean | number;
  /** Longer texts are refused, whatever the model could take. */
  readonly maxTokens?: number;
  readonly adapter?: AdapterChoice;
  readonly salt?: string;
  readonly client?: string;
  readonly signal?: AbortSignal;
}

/** How to make vectors of texts. */
export interface EmbedOptions extends TextOptions {
  /** The checkpoint's own when left out; where it states none, the last token of a decoder, the mean of an encoder. */
  readonly pooling?: Pooling;
  /** The first numbers of each vector alone (Matryoshka embeddings), cut before it is normalised. */
  readonly dimensions?: number;
  /** Scaled to length 1, so that a dot product is the cosine. Default: true, as over HTTP. */
  readonly normalize?: boolean;
  /** Put before each text. */
  readonly prompt?: string;
  /** One of the checkpoint's prompts, by its name. */
  readonly promptName?: string;
  /** "query" or "document": the checkpoint's prompt for such texts, where it has one. */
  readonly inputType?: string;
}

/** How to score pairs of texts. */
export interface ScoreOptions extends TextOptions {
  /** What rerankers that give a verdict judge by. */
  readonly instruction?: string;
  /** The numbers before the model's activation. */
  readonly raw?: boolean;
}

/** What `engine.score` gives. */
export interface ScoreResult {
  /** One for each pair. */
  readonly scores: readonly number[];
  readonly promptTokens: number;
}

/** How to rank documents. */
export interface RerankOptions extends ScoreOptions {
  /** Number of best results. */
  readonly topN?: number;
}

/** What `engine.rerank` gives. */
export interface RerankResult {
  /** Best first; equals in the order they were given in. */
  readonly results: readonly RankedDocument[];
  readonly promptTokens: number;
}

/** A document, and how well it answers the query. */
export interface RankedDocument {
  /** Its place among the documents given. */
  readonly index: number;
  readonly score: number;
  readonly document: string;
}

/** Vectors, in the order of the inputs. */
export interface EmbedResult {
  readonly vectors: readonly Float32Array[];
  readonly promptTokens: number;
}

/** An adapter that requests may name. */
export interface AdapterInfo {
  readonly name: string;
  /** Its folder or file. */
  readonly path: string;
  readonly isPinned: boolean;
  /** The same wherever the same adapter is loaded. */
  readonly identity: string;
  /** Of the device's memory, while it is loaded. */
  readonly byteLength: number;
  readonly maxRank: number;
}

/**
 * Whether the engine's thread serves. A thread that died is started again; requests that had not begun are kept. An engine that is elsewhere
 * may be away: requests wait for it for a while. One that is asleep (`sleepIdleSeconds`) is loaded again by the next request.
 */
export interface EngineHealth {
  readonly state: "ready" | "restarting" | "asleep" | "away" | "dead" | "closed";
  readonly restarts: number;
  /** What ended the thread last. */
  readonly lastError: string | null;
}

/** How a conversation is put to the model. */
export interface TemplateOptions {
  /** Further variables of the chat template, such as enable_thinking. date_string is today unless given, as "26 Jul 2026". */
  readonly templateArgs?: Readonly<Record<string, unknown>>;
  /** The answer continues the text of the last message, an assistant's, instead of beginning one. */
  readonly continueFinalMessage?: boolean;
}

/** What turns text into tokens and back: `engine.tokenizer`. */
export interface TextTokenizer {
  /** The token ids of a text. */
  encode(text: string, options?: EncodeOptions): number[];
  /** The text of token ids. */
  decode(ids: readonly number[]): string;
  /** The bytes a token adds to the text; may be part of a character. */
  bytes(id: number): Uint8Array;
}

/** The engine from inside: `engine.inspect`. */
export interface Inspector {
  /** The page map and the cached prefixes. */
  cache(): Promise<CachePicture>;
  /** The last thousand steps. */
  history(): readonly StepRecord[];
  /** Step records as they happen; ends when the engine closes. */
  steps(options?: { readonly signal?: AbortSignal }): AsyncIterable<StepRecord>;
  /** How attention was planned in one of the last thousand steps, one plan per window of the model; null for another step. */
  plan(step: number): Promise<readonly StepPlan[] | null>;
}

/** A model that answers requests, any number at a time. Made by `createEngine`; `await using` closes it. */
export interface Engine {
  readonly model: ModelInfo;
  /** Whether it serves; never waits. */
  health(): EngineHealth;
  /**
   * Answers a conversation, in typed parts: text, reasoning, calls of the tools. A string is one message of the user. Await it for the whole
   * answer, or iterate it.
   */
  chat<Schemas extends ToolSchemas = Record<never, never>>(
    messages: string | readonly ChatMessage[],
    options?: ChatOptions<Schemas>,
  ): ChatGeneration<Schemas>;
  /** Answers a conversation, calls the tools that the model requests, and continues until it answers without a call. */
  run<Schemas extends ToolSchemas>(
    messages: string | readonly ChatMessage[],
    options: RunOptions<Schemas>,
  ): ChatRun<Schemas>;
  /** An answer that is a value of a schema, typed and checked. */
  object<S extends Schema>(request: ObjectRequest<S>): Promise<ObjectResult<SchemaOutput<S>>>;
  /** Continues a text, token ids, or a conversation: the text as the model writes it, markers and all, of any number of samples. */
  generate(
    prompt: string | readonly number[] | readonly ChatMessage[],
    options?: GenerateOptions & TemplateOptions,
  ): Generation;
  /** The prompt that chat() gives the model, without pictures. */
  renderChat(
    messages: string | readonly ChatMessage[],
    options?: TemplateOptions & Pick<ChatOptions, "tools">,
  ): Promise<string>;
  /** One vector per input, made as the checkpoint states or as told. */
  embed(inputs: readonly (string | readonly number[])[], options?: EmbedOptions): Promise<EmbedResult>;
  /** How well the two texts of each pair go together: by a reranker, or by the angle between an embedding model's vectors. */
  score(pairs: readonly (readonly [string, string])[], options?: ScoreOptions): Promise<ScoreResult>;
  /** The documents by how well they answer the query. */
  rerank(query: string, documents: readonly string[], options?: RerankOptions): Promise<RerankResult>;
  /** Between text and tokens, in the caller's thread. */
  readonly tokenizer: TextTokenizer;
  /**
   * Reads a LoRA adapter, a folder as PEFT saves it, and gives it a name that requests may choose. Requests go on meanwhile. One that is not
   * in use may leave the device's memory, and is loaded again when a request names it; `pin` keeps it there.
   */
  loadAdapter(name: string, path: string, options?: { readonly pin?: boolean }): Promise<AdapterInfo>;
  /** Requests that have it end as they would; new ones cannot choose it any more. */
  unloadAdapter(name: string): Promise<void>;
  /** Those that requests may choose, in the order they were loaded in. */
  readonly adapters: readonly AdapterInfo[];
  /** Counters and gauges, as of the last step. */
  stats(): Promise<EngineStats>;
  /** The engine's inside, for people to look at. */
  readonly inspect: Inspector;
  /** Ends running requests with an error and frees the device. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
