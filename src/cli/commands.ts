// The subcommands of `pagoda`: what they are for, how they run, which options they take. Each is loaded when it is needed, so that
// `pagoda --help` does not load an engine.

import type { OptionTable } from "../config/options.js";

export interface Command {
  readonly summary: string;
  readonly load: () => Promise<(args: readonly string[]) => Promise<number>>;
  readonly options: () => Promise<OptionTable>;
  /** Words that may follow the command, for completion; absent: files. */
  readonly words?: () => Promise<readonly string[]>;
}

export const COMMANDS: Readonly<Record<string, Command>> = {
  generate: {
    summary: "continue a prompt or answer it",
    load: async () => (await import("./generate.js")).generateCommand,
    options: async () => (await import("./generate.js")).GENERATE_OPTIONS,
  },
  serve: {
    summary: "serve the OpenAI, Anthropic and Ollama APIs and a dashboard",
    load: async () => (await import("./server/serve.js")).serveCommand,
    options: async () => (await import("./server/serve.js")).SERVE_OPTIONS,
  },
  route: {
    summary: "route requests to a cluster of servers",
    load: async () => (await import("./cluster/route.js")).routeCommand,
    options: async () => (await import("./cluster/route.js")).ROUTE_OPTIONS,
  },
  "run-batch": {
    summary: "answer a file of requests without a server",
    load: async () => (await import("./run-batch.js")).runBatchCommand,
    options: async () => (await import("./run-batch.js")).RUN_BATCH_OPTIONS,
  },
  cluster: {
    summary: "show the members of a cluster and their load",
    load: async () => (await import("./cluster/cluster.js")).clusterCommand,
    options: async () => (await import("./cluster/cluster.js")).CLUSTER_COMMAND_OPTIONS,
    words: async () => (await import("./cluster/cluster.js")).CLUSTER_WORDS,
  },
  chat: {
    summary: "talk to a model in the terminal",
    load: async () => (await import("./chat/chat.js")).chatCommand,
    options: async () => (await import("./chat/chat.js")).CHAT_OPTIONS,
  },
  explain: {
    summary: "show how requests become chunks, batches and pages",
    load: async () => (await import("./explain/explain.js")).explainCommand,
    options: async () => (await import("./explain/explain.js")).EXPLAIN_OPTIONS,
  },
  inspect: {
    summary: "look at a checkpoint: shape, tensors, memory",
    load: async () => (await import("./inspect.js")).inspectCommand,
    options: async () => (await import("./inspect.js")).INSPECT_OPTIONS,
  },
  pull: {
    summary: "fetch a model from the Hugging Face hub",
    load: async () => (await import("./pull/pull.js")).pullCommand,
    options: async () => (await import("./pull/pull.js")).PULL_OPTIONS,
  },
  list: {
    summary: "list the models in the cache",
    load: async () => (await import("./list.js")).listCommand,
    options: async () => (await import("./list.js")).LIST_OPTIONS,
  },
  ps: {
    summary: "show the models that a running server holds",
    load: async () => (await import("./server/server-models.js")).psCommand,
    options: async () => (await import("./server/server-models.js")).PS_OPTIONS,
  },
  stop: {
    summary: "unload a model of a running server",
    load: async () => (await import("./server/server-models.js")).stopCommand,
    options: async () => (await import("./server/server-models.js")).STOP_OPTIONS,
  },
  launch: {
    summary: "start a coding agent on a running server: claude, codex, opencode",
    load: async () => (await import("./server/launch.js")).launchCommand,
    options: async () => (await import("./server/launch.js")).LAUNCH_OPTIONS,
    words: async () => Object.keys((await import("./server/agents.js")).AGENTS),
  },
  warmup: {
    summary: "compile the kernels for this GPU ahead of the first start; show what first steps cost",
    load: async () => (await import("./warmup.js")).warmupCommand,
    options: async () => (await import("./warmup.js")).WARMUP_OPTIONS,
  },
  bench: {
    summary: "measure speed: throughput, latency, serve, modes, attention, recurrent, matmul",
    load: async () => (await import("./bench/bench.js")).benchCommand,
    options: async () => (await import("./bench/bench.js")).benchOptions(),
    words: async () => (await import("./bench/bench.js")).BENCH_NAMES,
  },
  doctor: {
    summary: "show what this machine has and which device is used",
    load: async () => (await import("./doctor/doctor.js")).doctorCommand,
    options: async () => (await import("./doctor/doctor.js")).DOCTOR_OPTIONS,
  },
  verify: {
    summary: "check a model against its golden.json",
    load: async () => (await import("./verify.js")).verifyCommand,
    options: async () => (await import("./verify.js")).VERIFY_OPTIONS,
  },
  completion: {
    summary: "print a completion script for bash, zsh or fish",
    load: async () => (await import("./completion.js")).completionCommand,
    options: async () => ({}),
    words: async () => (await import("./completion.js")).SHELLS,
  },
};

/** In the order of the help. */
export const GROUPS: Readonly<Record<string, readonly string[]>> = {
  Use: ["chat", "generate", "serve", "run-batch"],
  Models: ["pull", "list", "inspect", "verify"],
  "A running server": ["launch", "ps", "stop"],
  Cluster: ["route", "cluster"],
  "This machine": ["doctor", "warmup", "bench", "explain", "completion"],
};
