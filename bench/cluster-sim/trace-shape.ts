// What public traces of language model services look like: each figure with its source. Nothing of the traces themselves is here.
//
//   [A23]  Azure LLM inference trace 2023, conversation (github.com/Azure/AzurePublicDataset, AzureLLMInferenceTrace_conv.csv): 19,366 requests
//          in 58 minutes. Figures computed from the file.
//   [A24]  Azure LLM inference trace 2024, conversation: 27.3 million requests in a week (45 in a second). The shape of the day is read
//          off the plot of requests in each minute in the dataset's own notebook, Tuesday 14 May.
//   [M25]  Mooncake (FAST '25, github.com/kvcache-ai/Mooncake, conversation_trace.jsonl): 12,031 requests in an hour, with the hashes of their
//          blocks of 512 tokens. Figures computed from the file; a request continues another when it begins with more of its blocks than the first.
//   [W25]  "KVCache Cache in the Wild" (USENIX ATC '25, arXiv 2506.02634), traces of Alibaba: of the prompts, 62 % (people) and 54 % (programs) were
//          there before; nearly all hits of programs are between single requests that begin with the same text.

/** Values at shares of the requests; what is between them is interpolated. */
export interface Quantiles {
  readonly shares: readonly number[];
  readonly values: readonly number[];
}

const SHARES = [0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999];

/** [A23] Tokens of prompts: median 1,020, mean 1,155. */
export const PROMPT_TOKENS: Quantiles = {
  shares: SHARES,
  values: [2, 91, 181, 207, 387, 403, 703, 1020, 1071, 1130, 1189, 1315, 2734, 4083, 4098, 4142, 6122],
};

/** [A23] Tokens of answers: median 129, mean 211. */
export const ANSWER_TOKENS: Quantiles = {
  shares: SHARES,
  values: [7, 24, 41, 54, 77, 91, 103, 129, 177, 384, 395, 400, 424, 451, 540, 601, 954],
};

/** [A24] Requests in a minute at each full hour of a working day, in hundreds. */
export const HOURS: readonly number[] = [
  26, 29, 32, 29, 24, 26, 29, 33, 35, 34, 31, 33, 36, 41, 46, 45, 39, 38, 37, 36, 33, 29, 26, 22,
];

/**
 * [A23] The rate of a minute differs from that of its hour with this coefficient of variation: counts in a minute have 16 times the variance
 * of a Poisson process (3.9 times in 10 s, 1.4 times in 1 s), which such minutes of Poisson arrivals give.
 */
export const MINUTE_VARIATION = 0.21;

/** [M25] Requests of a conversation, and the time from one to the next: median 123 s, mean 214 s. */
export const TURNS = 1.63;
export const TURN_GAP = { medianMs: 123_000, sigma: 1.05 } as const;
/** [M25] All requests of the chat begin with the same block. */
export const CHAT_OPENING_TOKENS = 512;
/** [M25] A conversation grows by 454 tokens at the median; 350 of them are the answer. */
export const QUESTION_TOKENS = { median: 104, sigma: 1 } as const;

/** Assumed, so that as much of the prompts was there before as [W25] says: */
/** requests of people; the others are of programs, */
export const CHAT_SHARE = 0.5;
/** whose prompts begin with the text of one of so many applications, used by Zipf's law, */
export const NUM_APPLICATIONS = 2000;
/** that is this share of them. */
export const APPLICATION_SHARE = 0.55;
