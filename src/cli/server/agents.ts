// How coding agents are told of a server: what each takes as arguments and environment. Nothing is written to their own settings.

/** What an agent is to talk to. */
export interface AgentTarget {
  /** Up to and without /v1. */
  readonly base: string;
  readonly model: string;
  readonly key: string | undefined;
  /** Tokens of the model's context; null: the server has not loaded the model yet. */
  readonly context: number | null;
}

export interface AgentStart {
  readonly args: readonly string[];
  /** undefined: the variable is taken out of the agent's environment. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface Agent {
  /** The program, and the npm package that has it. */
  readonly command: string;
  readonly npm: string;
  start(target: AgentTarget): AgentStart;
}

/** Sent where the server asks for none: the agents insist on having one. */
const NO_KEY = "none";

export const AGENTS: Readonly<Record<string, Agent>> = {
  claude: {
    command: "claude",
    npm: "@anthropic-ai/claude-code",
    start: ({ base, model, key, context }) => ({
      args: [],
      env: {
        ANTHROPIC_BASE_URL: base,
        ANTHROPIC_AUTH_TOKEN: key ?? NO_KEY,
        ANTHROPIC_API_KEY: undefined, // the user's own is not for this server
        ANTHROPIC_MODEL: model,
        ANTHROPIC_DEFAULT_OPUS_MODEL: model,
        ANTHROPIC_DEFAULT_SONNET_MODEL: model,
        ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        ...(context === null ? {} : { CLAUDE_CODE_AUTO_COMPACT_WINDOW: String(context) }),
      },
    }),
  },
  codex: {
    command: "codex",
    npm: "@openai/codex",
    start: ({ base, model, key, context }) => {
      const provider = {
        name: "Pagoda",
        base_url: `${base}/v1`,
        wire_api: "responses",
        ...(key === undefined ? {} : { env_key: "PAGODA_API_KEY" }),
      };
      const settings: Record<string, unknown> = {
        model,
        model_provider: "pagoda",
        ...(context === null ? {} : { model_context_window: context }),
      };
      for (const [field, value] of Object.entries(provider)) settings[`model_providers.pagoda.${field}`] = value;
      return {
        args: Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${JSON.stringify(value)}`]),
        env: key === undefined ? {} : { PAGODA_API_KEY: key },
      };
    },
  },
  opencode: {
    command: "opencode",
    npm: "opencode-ai",
    start: ({ base, model, key, context }) => {
      // The whole context is the prompt's and the answer's together; opencode wants to know what of it the answer may take.
      const limit = context === null ? {} : { limit: { context, output: Math.max(1, Math.floor(context / 4)) } };
      const config = {
        provider: {
          pagoda: {
            npm: "@ai-sdk/openai-compatible",
            name: "Pagoda",
            options: { baseURL: `${base}/v1`, apiKey: key ?? NO_KEY },
            models: { [model]: { name: model, tool_call: true, ...limit } },
          },
        },
        model: `pagoda/${model}`,
        small_model: `pagoda/${model}`,
      };
      return { args: [], env: { OPENCODE_CONFIG_CONTENT: JSON.stringify(config) } };
    },
  },
};
