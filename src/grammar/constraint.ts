// What structured output asks of sampling: which tokens may come next. Implementations live beside (xgrammar/).

/** What the answer must match; travels to the engine's thread as plain data. */
export interface ConstraintSpec {
  /**
   * json: any JSON value; json_schema: `source` is the schema as JSON text; regex; grammar: EBNF; tool_calls: see call-grammar.ts; any: any
   * text, behind `thoughts`.
   */
  readonly kind: "json" | "json_schema" | "regex" | "grammar" | "tool_calls" | "any";
  readonly source: string;
  /** @internal What the model may think before the answer that is bound. Absent: the answer begins at once. */
  readonly thoughts?: ThoughtsSpec;
  /** The field it was sent in, for messages about it. */
  readonly param?: string;
}

/** Thoughts before an answer: free text between two tokens. */
export interface ThoughtsSpec {
  /** open: the prompt has begun them; maybe: the model begins them or answers at once; always: they are begun for it. */
  readonly begin: "open" | "maybe" | "always";
  /** Tokens that begin them. */
  readonly open: readonly number[];
  /** The token that ends them. */
  readonly close: number;
  /** Tokens that follow it always, before the answer. */
  readonly after: readonly number[];
  /** Thoughts that have so many tokens are ended; null: never. */
  readonly budget: number | null;
}

/** The state of one answer under its constraint. */
export interface TokenConstraint {
  /** Whether the next token can be chosen now, or never. Other methods are only called then. */
  isReady(): boolean;
  /** Its next mask usually comes within a step: the step that needs it may begin before. Omitted: it does not. */
  isQuick?(): boolean;
  /**
   * Sets the bit of every token that may come next (bit id & 31 of word id >> 5). false: no restriction here, mask untouched. `numAhead`: the
   * mask behind so many of the tokens that were foreseen.
   */
  fillMask(mask: Int32Array, numAhead?: number): boolean;
  /**
   * Advances by a chosen token; false when the token is not allowed. `isFollowed`: the next one, a foreseen token or the first that differs
   * from one, is accepted at once.
   */
  accept(tokenId: number, isFollowed?: boolean): boolean;
  /** Asks for the masks behind each of these guesses, one after another. Omitted, as the next: there is a mask for one position only. */
  foresee?(tokens: Int32Array, first: number, count: number): void;
  /** How many of the guesses asked for last are allowed and have the masks behind them, after waiting a moment. They keep them until the next are asked for. */
  numForeseen?(): number;
  isDone(): boolean;
  /** Another answer under the same constraint, from its beginning; this one must not have begun either. Ready at once. */
  fork(): TokenConstraint;
  dispose(): void;
}

/** Who waits for a constraint. */
export interface Asker {
  /** Clients take turns, whatever each of them asks for. */
  readonly client: string;
  /** false: it has left, and waits no more. */
  isWanted(): boolean;
}

export interface ConstraintCompiler {
  /**
   * Resolves once compile(spec) can answer at once, or nobody wants it any more. Never rejects: compile says what is wrong with a
   * spec.
   */
  ready(spec: ConstraintSpec, asker?: Asker): Promise<void>;
  /**
   * After ready(). `accepted`: tokens that the answer has already. Throws RequestError for a source that cannot be compiled; other
   * requests are never harmed.
   */
  compile(spec: ConstraintSpec, accepted?: ArrayLike<number>): TokenConstraint;
  /** Gets ready for a first constraint, which otherwise waits for it. */
  warm(): void;
  /** Waits a moment for masks that are about to come. */
  settle(): void;
  close(): void;
}
