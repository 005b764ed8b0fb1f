// Chat templates: Jinja, as in tokenizer_config.json or GGUF metadata, rendered by @huggingface/jinja. Parsed on first use, so
// that a model whose template cannot be read still serves plain prompts.

import { Template } from "@huggingface/jinja";
import { RequestError } from "../core/errors.js";

/** A message as templates see it; further fields reach them as they are. */
export interface TemplateMessage {
  readonly role: string;
  readonly content?: unknown;
  readonly [field: string]: unknown;
}

export interface RenderOptions {
  readonly tools?: readonly unknown[];
  /** Ends with the header of an assistant's turn. On unless told otherwise, off when the last message is to be continued. */
  readonly addGenerationPrompt?: boolean;
  /** The text ends where the last message's content ends, so that the model goes on with it. */
  readonly continueFinalMessage?: boolean;
  /** Further variables that the template knows, such as enable_thinking. */
  readonly variables?: Readonly<Record<string, unknown>>;
}

// Private use characters that no template writes: they mark where the final message's content ends.
const END_MARK = "\u{10FFFD}\u{F8FFE}\u{10FFFC}";

export class ChatTemplate {
  readonly #sources: ReadonlyMap<string, string>;
  readonly #specialTokens: Readonly<Record<string, string>>;
  readonly #prefix: string;
  readonly #parsed = new Map<string, Template>();

  /**
   * `sources`: templates by name, "default" among them; a "tool_use" one serves requests with tools.
   * `prefix`: put before a text that does not begin with it (Tokenizer.chatPrefix).
   */
  constructor(sources: ReadonlyMap<string, string>, specialTokens: Readonly<Record<string, string>>, prefix = "") {
    this.#prefix = prefix;
    this.#sources = sources;
    this.#specialTokens = specialTokens;
  }

  /** The prompt text, ready to be encoded without further special tokens. Throws RequestError template_failed. */
  render(messages: readonly TemplateMessage[], options: RenderOptions = {}): string {
    const { tools, continueFinalMessage = false } = options;
    const shown = messages.map(withParsedArguments);
    if (continueFinalMessage) markEnd(shown);
    let text: string;
    try {
      text = this.#template(tools !== undefined && tools.length > 0).render({
        ...this.#specialTokens,
        ...options.variables,
        messages: shown,
        tools: tools !== undefined && tools.length > 0 ? tools : null,
        add_generation_prompt: options.addGenerationPrompt ?? !continueFinalMessage,
      });
    } catch (error) {
      throw failed((error as Error).message, error);
    }
    if (!text.startsWith(this.#prefix)) text = this.#prefix + text;
    if (!continueFinalMessage) return text;
    const end = text.lastIndexOf(END_MARK);
    if (end < 0) throw failed("it does not show the content of the last message, which was to be continued.");
    return text.slice(0, end);
  }

  #template(hasTools: boolean): Template {
    const name = hasTools && this.#sources.has("tool_use") ? "tool_use" : "default";
    let template = this.#parsed.get(name);
    if (template === undefined) {
      const source = this.#sources.get(name);
      if (source === undefined) throw new Error(`there is no template named ${name}.`);
      template = new Template(source);
      this.#parsed.set(name, template);
    }
    return template;
  }
}

function markEnd(messages: TemplateMessage[]): void {
  const last = messages.at(-1);
  if (typeof last?.content !== "string") throw failed("the last message has no text to continue.");
  // The mark also keeps a template that trims from taking the spaces that the model is to go on after.
  messages[messages.length - 1] = { ...last, content: `${last.content}${END_MARK}` };
}

/** Tool calls carry their arguments as JSON text in the OpenAI form; templates expect the object. */
function withParsedArguments(message: TemplateMessage): TemplateMessage {
  if (!Array.isArray(message.tool_calls)) return message;
  const calls = message.tool_calls.map((call) => {
    const args = call?.function?.arguments;
    if (typeof args !== "string") return call;
    try {
      return { ...call, function: { ...call.function, arguments: JSON.parse(args) } };
    } catch {
      return call;
    }
  });
  return { ...message, tool_calls: calls };
}

function failed(reason: string, cause?: unknown): RequestError {
  return new RequestError("template_failed", { reason }, { cause });
}
