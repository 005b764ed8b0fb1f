// Tools in the form that chat templates, and OpenAI's clients, know.

/** A function that a model may call. */
export interface FunctionTool {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string | null | undefined;
    /** A JSON schema of its arguments. */
    readonly parameters?: Readonly<Record<string, unknown>> | null | undefined;
    readonly strict?: boolean | null | undefined;
  };
}
