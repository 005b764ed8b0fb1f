// What a router tells those who look at it: GET /api/cluster. Types only: the page in the browser reads them too.

export interface ClusterPicture {
  readonly cluster: string;
  /** As `pagoda cluster status` counts them. */
  readonly models: Readonly<Record<string, unknown>>;
  /** Answers that went on at another replica, prompts that one computed for another, replicas that were lost. */
  readonly resumed: number;
  readonly prefilled: number;
  readonly lost: number;
  readonly replicas: readonly ReplicaPicture[];
  /** The ways of the last requests, newest first. */
  readonly requests: readonly Journey[];
  /** Hottest first; the text is left out for those who may not read the prompts of others. */
  readonly prefixes: readonly (PrefixPicture & { readonly replicas: number; readonly text?: string })[];
}

/** Of a replica's entry (registration.ts), what is shown; and what this router knows of it. */
export interface ReplicaPicture {
  readonly id: string;
  readonly role: string;
  readonly state: string;
  readonly slots: number;
  readonly load: {
    readonly calls: { readonly count: number };
    readonly waiting: number;
    readonly pagesUsed: number;
    readonly pagesCached: number;
    readonly pagesTotal: number;
    readonly promptTokens: number;
    readonly cachedTokens: number;
    readonly tokensPerSecond: number;
    readonly requestsFinished: number;
  };
  /** Pages of prefixes that it is known to hold. */
  readonly prefixPages: number;
  /** From sending a request there to its first token, lately; null: there was none. */
  readonly firstTokenMs: { readonly p50: number; readonly p99: number } | null;
}

/** A replica that could have been chosen. */
export interface Alternative {
  readonly replica: string;
  /** Until the first token, as it was expected. */
  readonly expectedMs: number;
  readonly heldTokens: number;
  readonly calls: number;
  readonly isFull: boolean;
}

/** `atMs` counts from when the request came. */
export type JourneyEvent = { readonly atMs: number } & (
  | {
      readonly type: "chosen";
      readonly replica: string;
      /** Whether it answers, or only computes the prompt for another. */
      readonly task: "answer" | "prefill";
      readonly expectedMs: number;
      readonly heldTokens: number;
      /** Where it fetches more of the prompt from. */
      readonly fetch: { readonly peer: string; readonly tokens: number; readonly ms: number } | null;
      /** The best of the others, soonest first. */
      readonly alternatives: readonly Alternative[];
    }
  | { readonly type: "waiting" }
  | { readonly type: "prefilled"; readonly replica: string }
  | { readonly type: "first_token"; readonly replica: string }
  /** What came until then is kept; the request goes on elsewhere. */
  | { readonly type: "lost"; readonly replica: string; readonly reason: string; readonly numTokens: number }
  | { readonly type: "end"; readonly reason: string; readonly numTokens: number; readonly cachedTokens: number | null }
);

export interface Journey {
  readonly id: string;
  readonly model: string;
  readonly promptTokens: number;
  /** By the calendar. */
  readonly startedMs: number;
  readonly events: readonly JourneyEvent[];
}

/** A run of pages that many prompts begin with, up to where they part. */
export interface PrefixPicture {
  readonly model: string;
  /** Tokens before the run, which other runs have, and up to its end. */
  readonly from: number;
  readonly to: number;
  readonly requests: number;
  /** Requests that were sent where it was held. */
  readonly hits: number;
}
