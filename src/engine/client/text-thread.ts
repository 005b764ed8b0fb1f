// Texts that would hold up the caller's thread are worked on in a thread of their own: a megabyte of prompt takes seconds to tokenise, and
// a model's chat template and the expressions of its tokenizer may take for ever.

import { Worker } from "node:worker_threads";
import { RequestError } from "../../core/errors.js";
import { type Asker, TaskThread } from "../../threads/task-thread.js";
import type { ChatPrompt, RenderOptions, TemplateMessage } from "../../tokenizer/chat-template.js";
import type { EncodeOptions } from "../../tokenizer/tokenizer.js";

/** What the thread can be asked, with what it takes and what it gives. */
export interface TextTasks {
  encode: { given: { text: string; options: EncodeOptions }; made: Int32Array };
  render: { given: { messages: readonly TemplateMessage[]; options: RenderOptions }; made: ChatPrompt };
  verdict: {
    given: { query: string; document: string; instruction?: string | undefined; limit: number };
    made: Int32Array;
  };
}

export type TextTask = { [Kind in keyof TextTasks]: { kind: Kind } & TextTasks[Kind]["given"] }[keyof TextTasks];

/** A megabyte takes about 3 s on a slow machine with much to do. */
const LIMITS = { taskMs: 20_000, msPerMegabyte: 20_000, memoryMb: 2048 };

export class TextThread {
  readonly #thread: TaskThread<TextTask, TextTasks[keyof TextTasks]["made"]>;

  /** `model`: where the checkpoint is. Its tokenizer is read once more, when the first text comes. */
  constructor(model: string, { taskMs, msPerMegabyte, memoryMb } = LIMITS) {
    this.#thread = new TaskThread({
      start: (resourceLimits) =>
        new Worker(new URL("./text-worker.js", import.meta.url), { workerData: model, execArgv: [], resourceLimits }),
      memoryMb,
      limitMs: (task) => taskMs + (msPerMegabyte * sizeOf(task)) / 2 ** 20,
      failure,
    });
  }

  run<Kind extends keyof TextTasks>(
    kind: Kind,
    given: TextTasks[Kind]["given"],
    asker: Asker = {},
  ): Promise<TextTasks[Kind]["made"]> {
    return this.#thread.run({ kind, ...given } as TextTask, asker) as Promise<TextTasks[Kind]["made"]>;
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

function failure({ kind }: TextTask, reason: string): RequestError {
  return kind === "render"
    ? new RequestError("template_failed", { reason })
    : new RequestError("text_failed", { reason });
}

/** Characters, about. */
function sizeOf(task: TextTask): number {
  switch (task.kind) {
    case "encode":
      return task.text.length;
    case "render":
      return task.messages.reduce((sum, { content }) => sum + lengthOf(content), 0);
    case "verdict":
      return task.query.length + task.document.length;
  }
}

/** A text, or parts of it. */
function lengthOf(content: unknown): number {
  if (typeof content === "string") return content.length;
  return Array.isArray(content)
    ? content.reduce((sum: number, part) => sum + lengthOf((part as { text?: unknown }).text), 0)
    : 0;
}
