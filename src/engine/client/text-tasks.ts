// Texts that become vectors or scores instead of answers: prompts and frames, cutting, pooling, Matryoshka sizes, normalisation, the
// ways of reranking. What runs in the engine is one request for each text or pair.

import { activate } from "../../core/activation.js";
import { errorFor, RequestError } from "../../core/errors.js";
import { POOLINGS, type Pooling } from "../../core/pooling.js";
import { type FramedText, framePair, frameText } from "../../tokenizer/text-frame.js";
import type { EncodeOptions } from "../../tokenizer/tokenizer.js";
import type { EngineFacts, RequestKind, TextFields } from "../messages.js";
import type {
  EmbedOptions,
  EmbedResult,
  RerankOptions,
  RerankResult,
  ScoreOptions,
  ScoreResult,
  TextOptions,
} from "../types.js";
import type { ChatCheckpoint } from "./chat-checkpoint.js";
import { Throttle } from "./throttle.js";
import { checkList, contextLimit } from "./validate.js";
import { cosine, cutVector, scaleToOne } from "./vectors.js";

/** Makes tokens of a text without holding up the thread for long. */
type Tokenize = (text: string, options: EncodeOptions, signal?: AbortSignal, client?: string) => Promise<number[]>;
/** The same of a pair that a model is asked to judge. */
type Verdict = (query: string, document: string, limit: number, options: ScoreOptions) => Promise<number[]>;

/** Texts that are checked and sent off in one turn of the event loop, of all lists together. */
const TEXTS_A_TURN = 128;

/** Runs one text; the vector is what its kind of request gives. */
export type RunText = (
  kind: RequestKind,
  ids: readonly number[],
  fields: TextFields,
  options: TextOptions,
) => Promise<Float32Array>;

export class TextTasks {
  readonly #checkpoint: ChatCheckpoint;
  readonly #facts: () => EngineFacts;
  readonly #tokenize: Tokenize;
  readonly #verdict: Verdict;
  readonly #run: RunText;
  /** Throws where there is no room for so many texts: they are not tokenised in vain. */
  readonly #requireRoom: (count: number) => void;
  readonly #turns = new Throttle(TEXTS_A_TURN);

  constructor(
    checkpoint: ChatCheckpoint,
    facts: () => EngineFacts,
    tokenize: Tokenize,
    verdict: Verdict,
    run: RunText,
    requireRoom: (count: number) => void,
  ) {
    this.#checkpoint = checkpoint;
    this.#facts = facts;
    this.#tokenize = tokenize;
    this.#verdict = verdict;
    this.#run = run;
    this.#requireRoom = requireRoom;
  }

  async embed(inputs: readonly (string | readonly number[])[], options: EmbedOptions): Promise<EmbedResult> {
    checkList("inputs", inputs, "a list of texts");
    this.#requireRoom(inputs.length);
    const { recipe } = this.#checkpoint;
    const own = recipe.pooling ?? (this.#facts().isBidirectional ? "mean" : "last");
    const pooling = options.pooling ?? own;
    if (!POOLINGS.includes(pooling)) throw invalid("pooling", pooling, `one of ${POOLINGS.join(", ")}`);
    const prompt = this.#promptFor(options);
    const limit = this.#limitOf(options);
    const texts = await Promise.all(inputs.map((input) => this.#encode(prompt, input, limit, options)));
    // The layers after pooling were trained on the checkpoint's own pooling.
    const kind = pooling === own ? "embed" : "pool";
    checkLengths(texts, options);
    const vectors = await this.#runAll(kind, texts, pooling, options);
    return {
      vectors: vectors.map((vector) => {
        const cut = cutVector(vector, options.dimensions);
        return options.normalize === false ? cut : scaleToOne(cut);
      }),
      promptTokens: countTokens(texts),
    };
  }

  async score(pairs: readonly (readonly [string, string])[], options: ScoreOptions): Promise<ScoreResult> {
    checkList("pairs", pairs, "a list of pairs of texts");
    this.#requireRoom(pairs.length);
    const { task, numLabels } = this.#facts();
    if (numLabels > 0) return this.#scorePairs(pairs, options);
    if (task === "embed" || this.#checkpoint.recipe.pooling !== null) return this.#comparePairs(pairs, options);
    throw new RequestError("task_unsupported", {
      model: this.#checkpoint.name,
      task: "score or rerank texts",
      reason: "it generates. Serve a reranker or an embedding model.",
    });
  }

  async rerank(query: string, documents: readonly string[], options: RerankOptions): Promise<RerankResult> {
    checkList("documents", documents, "a list of texts");
    const { topN = documents.length, ...rest } = options;
    if (!Number.isSafeInteger(topN) || topN < 1) throw invalid("topN", topN, "a whole number of at least 1");
    const { scores, promptTokens } = await this.score(
      documents.map((document) => [query, document] as const),
      rest,
    );
    const results = scores
      .map((score, index) => ({ index, score, document: documents[index]! }))
      .sort((a, b) => b.score - a.score); // equals stay in their order
    return { results: results.slice(0, topN), promptTokens };
  }

  /** A cross-encoder reads both texts at once. */
  async #scorePairs(pairs: readonly (readonly [string, string])[], options: ScoreOptions): Promise<ScoreResult> {
    const { numLabels, scorePooling: pooling } = this.#facts();
    const { recipe, name } = this.#checkpoint;
    if (numLabels !== 1) {
      const reason = `it has ${numLabels} labels, and a score is one number.`;
      throw new RequestError("task_unsupported", { model: name, task: "score or rerank texts", reason });
    }
    const limit = this.#limitOf(options);
    const texts = await Promise.all(
      pairs.map(async ([first, second]) =>
        recipe.isAsked
          ? { ids: await this.#verdict(first, second, limit, options), secondStart: undefined }
          : this.#encodePair(first, second, limit, options),
      ),
    );
    checkLengths(texts, options);
    const vectors = await this.#runAll("score", texts, pooling, options);
    const isRaw = options.raw === true || recipe.scoreActivation === "identity";
    const scores = vectors.map((vector) => (isRaw ? vector[0]! : activate("sigmoid", vector[0]!)));
    return { scores, promptTokens: countTokens(texts) };
  }

  /** The vectors of all texts. Where one is refused or fails, the others are left: nobody would hear of them. */
  async #runAll(
    kind: RequestKind,
    texts: readonly { readonly ids: readonly number[]; readonly secondStart?: number | undefined }[],
    pooling: Pooling,
    options: TextOptions,
  ): Promise<Float32Array[]> {
    const running: Promise<Float32Array>[] = [];
    const leaves: AbortController[] = []; // of each its own: to add a listener takes as long as a signal has listeners
    const leave = (): void => {
      for (const one of leaves) one.abort();
    };
    options.signal?.addEventListener("abort", leave);
    try {
      for (const { ids, secondStart } of texts) {
        await this.#turns.acquire(1);
        if (options.signal?.aborted) throw errorFor("aborted");
        const own = new AbortController();
        leaves.push(own);
        const fields = { pooling, ...(secondStart === undefined ? {} : { secondStart }) };
        const vector = this.#run(kind, ids, fields, { ...options, signal: own.signal });
        vector.catch(() => undefined); // it is heard of below, where nothing else is wrong before
        running.push(vector);
      }
      return await Promise.all(running);
    } catch (error) {
      leave();
      throw error;
    } finally {
      options.signal?.removeEventListener("abort", leave);
    }
  }

  /** An embedding model gives each text a vector; pairs are compared by angle. */
  async #comparePairs(pairs: readonly (readonly [string, string])[], options: ScoreOptions): Promise<ScoreResult> {
    const queries = [...new Set(pairs.map(([first]) => first))];
    const documents = [...new Set(pairs.map(([, second]) => second))];
    const { instruction: _, raw: __, ...rest } = options;
    const [left, right] = await Promise.all([
      this.embed(queries, { ...rest, normalize: false, inputType: "query" }),
      this.embed(documents, { ...rest, normalize: false, inputType: "document" }),
    ]);
    const scores = pairs.map(([first, second]) =>
      cosine(left.vectors[queries.indexOf(first)]!, right.vectors[documents.indexOf(second)]!),
    );
    return { scores, promptTokens: left.promptTokens + right.promptTokens };
  }

  #promptFor({ prompt, promptName, inputType }: EmbedOptions): string {
    if (prompt !== undefined) return prompt;
    const { prompts, defaultPrompt } = this.#checkpoint.recipe;
    if (promptName === undefined && inputType !== undefined) {
      const kind = inputType.replace(/^search_/, "");
      const names = DOCUMENT_NAMES.includes(kind) ? [inputType, kind, ...DOCUMENT_NAMES] : [inputType, kind];
      return prompts[names.find((name) => prompts[name] !== undefined) ?? ""] ?? "";
    }
    const name = promptName ?? defaultPrompt;
    if (name === null) return "";
    if (prompts[name] === undefined && promptName !== undefined) {
      throw invalid(
        "promptName",
        promptName,
        `one of ${Object.keys(prompts).join(", ") || "none: this model has no prompts"}`,
      );
    }
    return prompts[name] ?? "";
  }

  /** Tokens that a text is cut to; Infinity: it is not cut, and refused when it is too long. */
  #limitOf({ truncate = false }: TextOptions): number {
    if (truncate === false) return Number.POSITIVE_INFINITY;
    const most = Math.min(contextLimit(this.#facts()), this.#checkpoint.recipe.maxLength ?? Number.POSITIVE_INFINITY);
    if (truncate === true) return most;
    if (!Number.isSafeInteger(truncate) || truncate < 1)
      throw invalid("truncate", truncate, "true, false or a number of tokens");
    return Math.min(truncate, contextLimit(this.#facts()));
  }

  async #encode(
    prompt: string,
    input: string | readonly number[],
    limit: number,
    asker: TextOptions,
  ): Promise<FramedText> {
    if (typeof input !== "string") return { ids: input.slice(0, Math.min(limit, input.length)) };
    const tokenizer = this.#checkpoint.requireTokenizer();
    return frameText(tokenizer.frame(false), await this.#contentIds(prompt, input, limit, asker), limit);
  }

  async #encodePair(first: string, second: string, limit: number, asker: TextOptions): Promise<FramedText> {
    const frame = this.#checkpoint.requireTokenizer().frame(true);
    const ids = (text: string): Promise<number[]> => this.#contentIds("", text, limit, asker);
    return framePair(frame, await ids(first), await ids(second), limit);
  }

  /** What a caller writes is text: it holds no control tokens, whatever it looks like. */
  async #contentIds(prompt: string, text: string, limit: number, asker: TextOptions): Promise<number[]> {
    const whole = prompt + text;
    const most = contextLimit(this.#facts());
    if (whole.length > most * MAX_CHARS_PER_TOKEN) {
      if (limit === Number.POSITIVE_INFINITY)
        throw new RequestError("text_too_long", { value: `more than ${most}`, limit: most });
      return this.#contentIds("", whole.slice(0, most * MAX_CHARS_PER_TOKEN), limit, asker);
    }
    const content = text === "" ? [] : ([[prompt.length, whole.length]] as const);
    return this.#tokenize(whole, { addSpecialTokens: false, content }, asker.signal, asker.client);
  }
}

/** What checkpoints call the prompt of what is searched, best first. */
const DOCUMENT_NAMES = ["document", "passage", "corpus"];
/** No tokenizer writes this many characters a token on average. */
const MAX_CHARS_PER_TOKEN = 32;

function countTokens(texts: readonly { readonly ids: readonly number[] }[]): number {
  return texts.reduce((sum, { ids }) => sum + ids.length, 0);
}

/** Before any of them runs. */
function checkLengths(texts: readonly { readonly ids: readonly number[] }[], { maxTokens }: TextOptions): void {
  const long = texts.find(({ ids }) => maxTokens !== undefined && ids.length > maxTokens);
  if (long !== undefined) throw new RequestError("text_too_long", { value: long.ids.length, limit: maxTokens! });
}

function invalid(param: string, value: unknown, expected: string): RequestError {
  return new RequestError("invalid_value", { param, value: String(value).slice(0, 100), expected });
}
