// What a caller may ask of sampling. One table describes every parameter; validation, command line, server, OpenAPI, dashboard and
// docs read it. Values are checked once at the border (engine/client/validate.ts) and trusted after it.

/** number, integer: one number. strings, tokens: a list of texts, of token ids. bias: pairs of token id and number. */
export type SamplingType = "number" | "integer" | "boolean" | "strings" | "tokens" | "bias";

export interface SamplingParam {
  readonly type: SamplingType;
  /** Of a number, of each number of a bias; the most entries of a list. */
  readonly min?: number;
  readonly max?: number;
  /** null: see defaultText; for parameters that may be null, off. */
  readonly default: unknown;
  /** What holds when nothing is given and it is not `default`; "the model's" may be in its generation_config.json. */
  readonly defaultText?: string;
  readonly isNullable?: boolean;
  /** Name in request bodies of the server; null: each route has its own way to ask for it. */
  readonly api: string | null;
  /** A value that means the default there, because other servers have it so. */
  readonly apiOff?: number;
  /** It is a flag of the command line. */
  readonly isFlag: boolean;
  /** Its one-letter flag. */
  readonly short?: string;
  /** Label of its field in the dashboard; left out: it has none. */
  readonly label?: string;
  readonly help: string;
}

const MODELS_OWN = "the model's";
const MOST_TOKENS = 2 ** 24;

export const SAMPLING = {
  temperature: {
    type: "number",
    min: 0,
    max: 100,
    default: 1,
    defaultText: MODELS_OWN,
    api: "temperature",
    short: "t",
    isFlag: true,
    label: "Temperature",
    help: "softmax temperature; 0 is greedy",
  },
  topK: {
    type: "integer",
    min: 0,
    max: 2 ** 31 - 1,
    default: 0,
    defaultText: MODELS_OWN,
    api: "top_k",
    apiOff: -1,
    isFlag: true,
    label: "Top k",
    help: "keep the k most probable tokens; 0 is all",
  },
  topP: {
    type: "number",
    min: 0,
    max: 1,
    default: 1,
    defaultText: MODELS_OWN,
    api: "top_p",
    isFlag: true,
    label: "Top p",
    help: "keep the most probable tokens up to this total probability",
  },
  minP: {
    type: "number",
    min: 0,
    max: 1,
    default: 0,
    defaultText: MODELS_OWN,
    api: "min_p",
    isFlag: true,
    label: "Min p",
    help: "drop tokens less probable than this fraction of the best",
  },
  repetitionPenalty: {
    type: "number",
    min: 0.01,
    max: 100,
    default: 1,
    defaultText: MODELS_OWN,
    api: "repetition_penalty",
    isFlag: true,
    label: "Repetition",
    help: "above 1 discourages repetition",
  },
  presencePenalty: {
    type: "number",
    min: -100,
    max: 100,
    default: 0,
    api: "presence_penalty",
    isFlag: true,
    label: "Presence",
    help: "subtracted from the logit of every token already in the answer",
  },
  frequencyPenalty: {
    type: "number",
    min: -100,
    max: 100,
    default: 0,
    api: "frequency_penalty",
    isFlag: true,
    label: "Frequency",
    help: "subtracted from a token's logit for each time it is in the answer",
  },
  dryMultiplier: {
    type: "number",
    min: 0,
    max: 100,
    default: 0,
    api: "dry_multiplier",
    isFlag: true,
    help: "DRY: how much a token loses that would continue a repetition; 0 is off, 0.8 is usual",
  },
  dryBase: {
    type: "number",
    min: 1,
    max: 100,
    default: 1.75,
    api: "dry_base",
    isFlag: true,
    help: "DRY: the factor for each further token of the repetition",
  },
  dryAllowedLength: {
    type: "integer",
    min: 0,
    max: 2 ** 20,
    default: 2,
    api: "dry_allowed_length",
    isFlag: true,
    help: "DRY: repetitions shorter than this are free",
  },
  dryPenaltyLastN: {
    type: "integer",
    min: -1,
    max: MOST_TOKENS,
    default: -1,
    api: "dry_penalty_last_n",
    isFlag: true,
    help: "DRY: number of last tokens that are searched; -1 is all",
  },
  drySequenceBreakers: {
    type: "strings",
    max: 64,
    default: ["\n", ":", '"', "*"],
    api: "dry_sequence_breakers",
    isFlag: false,
    help: "DRY: a repetition ends at a token with one of these texts in it",
  },
  xtcProbability: {
    type: "number",
    min: 0,
    max: 1,
    default: 0,
    api: "xtc_probability",
    isFlag: true,
    help: "XTC: probability of removing the most probable tokens; 0 is never",
  },
  xtcThreshold: {
    type: "number",
    min: 0,
    max: 1,
    default: 0.1,
    api: "xtc_threshold",
    isFlag: true,
    help: "XTC: of the tokens that are at least this probable only the least probable one stays",
  },
  loopCount: {
    type: "integer",
    min: 0,
    max: 2 ** 20,
    default: 0,
    api: null,
    isFlag: true,
    help: "end an answer whose last tokens are one pattern, repeated this number of times; 0 and 1: never",
  },
  loopMinSize: {
    type: "integer",
    min: 1,
    max: 4096,
    default: 1,
    api: null,
    isFlag: true,
    help: "the fewest tokens of such a pattern",
  },
  loopMaxSize: {
    type: "integer",
    min: 1,
    max: 4096,
    default: 32,
    api: null,
    isFlag: true,
    help: "the most tokens of such a pattern",
  },
  logitBias: {
    type: "bias",
    min: -100,
    max: 100,
    default: [],
    api: "logit_bias",
    isFlag: false,
    help: "added to the logits of these tokens",
  },
  maxTokens: {
    type: "integer",
    min: 0,
    max: MOST_TOKENS,
    default: null,
    defaultText: "what the context leaves",
    api: "max_tokens",
    short: "n",
    isFlag: true,
    label: "Max tokens",
    help: "maximum length of the answer, in tokens; 0 computes the prompt alone, to score or to cache it",
  },
  minTokens: {
    type: "integer",
    min: 0,
    max: MOST_TOKENS,
    default: 0,
    api: "min_tokens",
    isFlag: true,
    help: "minimum length of the answer, in tokens",
  },
  seed: {
    type: "integer",
    min: Number.MIN_SAFE_INTEGER,
    max: Number.MAX_SAFE_INTEGER,
    default: null,
    defaultText: "random",
    api: "seed",
    isFlag: true,
    label: "Seed",
    help: "the same seed gives the same answer",
  },
  n: {
    type: "integer",
    min: 1,
    max: 128,
    default: 1,
    api: "n",
    isFlag: false,
    help: "number of answers to the same prompt",
  },
  stop: {
    type: "strings",
    max: 64,
    default: [],
    api: "stop",
    isFlag: true,
    label: "Stop at this text",
    help: "strings that end the answer",
  },
  stopTokenIds: {
    type: "tokens",
    max: 1024,
    default: [],
    api: "stop_token_ids",
    isFlag: false,
    help: "tokens that end the answer",
  },
  ignoreEos: {
    type: "boolean",
    default: false,
    api: "ignore_eos",
    isFlag: true,
    help: "keep generating past the model's end-of-sequence token",
  },
  logprobs: {
    type: "integer",
    min: 0,
    max: 64,
    default: null,
    isNullable: true,
    defaultText: "none",
    api: null,
    isFlag: false,
    help: "log-probabilities of the answer's tokens, each with this many alternatives",
  },
  promptLogprobs: {
    type: "integer",
    min: 0,
    max: 64,
    default: null,
    isNullable: true,
    defaultText: "none",
    api: "prompt_logprobs",
    isFlag: false,
    help: "the same for every prompt token after the first",
  },
} as const satisfies Record<string, SamplingParam>;

type Table = typeof SAMPLING;
export type SamplingKey = keyof Table;

interface ValueOf {
  readonly number: number;
  readonly integer: number;
  readonly boolean: boolean;
  readonly strings: readonly string[];
  readonly tokens: readonly number[];
  readonly bias: readonly (readonly [id: number, bias: number])[];
}

/** The sampling parameters of a request, all of them set. docs/reference/sampling.md has each with its range and default. */
export type SamplingParams = {
  readonly [Key in SamplingKey]:
    | ValueOf[Table[Key]["type"]]
    | (Table[Key] extends { readonly isNullable: true } ? null : never);
};

/** Those of a request that says nothing; seed and maxTokens are found for each request. */
export const SAMPLING_DEFAULTS = Object.fromEntries(
  Object.entries(SAMPLING)
    .filter(([key]) => key !== "seed" && key !== "maxTokens")
    .map(([key, param]) => [key, param.default]),
) as unknown as Omit<SamplingParams, "seed" | "maxTokens">;

/** A token with its log-probability (natural log). */
export interface TokenLogprob {
  readonly id: number;
  readonly logprob: number;
}

/** The token of one position, and what else might have stood there. */
export interface PositionLogprobs extends TokenLogprob {
  /** The most probable alternatives, best first. */
  readonly top: readonly TokenLogprob[];
}
