// Chat templates: Jinja, as in tokenizer_config.json or GGUF metadata. Parsed on first use, so that a model whose template cannot
// be read still serves plain prompts.
//
// A rendered prompt knows which of its characters the template wrote and which came with the request, so that the tokenizer can
// leave a user's "<|im_end|>" as the plain text it is.

import { RequestError } from "../core/errors.js";
import { LongRendering, TemplateError } from "../templates/errors.js";
import { JinjaTemplate } from "../templates/template.js";
import { readJson } from "../templates/values/json.js";
import { CONTENT, FINAL, OWN, Text } from "../templates/values/text.js";
import { Dict, fromOutside, List, type Value } from "../templates/values/values.js";
import type { Spans } from "./tokenizer.js";

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

/** Messages as the model reads them. */
export interface ChatPrompt {
  readonly text: string;
  /** The parts that came with the request: never control tokens. */
  readonly content: Spans;
}

/** Roles that templates know. Any other is text of the request, which a template may refuse. */
export const ROLES = [
  "system",
  "developer",
  "user",
  "assistant",
  "tool",
  "function",
  "ipython",
  "observation",
] as const;

export class ChatTemplate {
  readonly #sources: ReadonlyMap<string, string>;
  readonly #specialTokens: Readonly<Record<string, string>>;
  readonly #prefix: string;
  readonly #parsed = new Map<string, JinjaTemplate>();

  /**
   * `sources`: templates by name, "default" among them; a "tool_use" one serves requests with tools.
   * `prefix`: put before a text that does not begin with it (Tokenizer.chatPrefix).
   */
  constructor(sources: ReadonlyMap<string, string>, specialTokens: Readonly<Record<string, string>>, prefix = "") {
    this.#prefix = prefix;
    this.#sources = sources;
    this.#specialTokens = specialTokens;
  }

  /** All its templates' text. */
  get source(): string {
    return [...this.#sources.values()].join("\n");
  }

  /** The prompt's text alone. */
  render(messages: readonly TemplateMessage[], options: RenderOptions = {}): string {
    return this.renderPrompt(messages, options).text;
  }

  /** The same in a moment; null where it takes more. */
  glance(messages: readonly TemplateMessage[], options: RenderOptions = {}): ChatPrompt | null {
    try {
      return this.#render(messages, options, true);
    } catch (error) {
      if ((error as Error).cause instanceof LongRendering) return null;
      throw error;
    }
  }

  /** The prompt, ready to be encoded without further special tokens. Throws RequestError template_failed. */
  renderPrompt(messages: readonly TemplateMessage[], options: RenderOptions = {}): ChatPrompt {
    return this.#render(messages, options, false);
  }

  #render(messages: readonly TemplateMessage[], options: RenderOptions, isGlance: boolean): ChatPrompt {
    const { tools, continueFinalMessage = false } = options;
    const hasTools = tools !== undefined && tools.length > 0;
    const last = messages.at(-1);
    if (continueFinalMessage && typeof last?.content !== "string")
      throw failed("the last message has no text to continue.");
    let rendered: Text;
    try {
      const variables: [string, Value][] = [];
      for (const [name, token] of Object.entries(this.#specialTokens)) variables.push([name, Text.of(token, OWN)]);
      for (const [name, value] of Object.entries(options.variables ?? {})) variables.push([name, fromOutside(value)]);
      const shown = messages.map((message) =>
        toValue(message, continueFinalMessage && message === last ? FINAL : CONTENT),
      );
      variables.push(["messages", new List(shown)]);
      variables.push(["tools", hasTools ? fromOutside(tools) : null]);
      variables.push(["add_generation_prompt", options.addGenerationPrompt ?? !continueFinalMessage]);
      rendered = this.#template(hasTools).render(variables, undefined, { isGlance });
    } catch (error) {
      throw failed((error as Error).message, error);
    }
    if (!ownBeginning(rendered).startsWith(this.#prefix)) rendered = Text.own(this.#prefix).concat(rendered);
    if (continueFinalMessage) rendered = cutAfterFinal(rendered, last!.content as string);
    return { text: rendered.s, content: contentSpans(rendered) };
  }

  #template(hasTools: boolean): JinjaTemplate {
    const name = hasTools && this.#sources.has("tool_use") ? "tool_use" : "default";
    let template = this.#parsed.get(name);
    if (template === undefined) {
      const source = this.#sources.get(name);
      if (source === undefined) throw new TemplateError(`there is no template named ${name}.`);
      template = new JinjaTemplate(source);
      this.#parsed.set(name, template);
    }
    return template;
  }
}

function toValue(message: TemplateMessage, contentOrigin: string): Value {
  const dict = new Dict();
  for (const [field, value] of Object.entries(message)) {
    if (value === undefined) continue;
    const isKnownRole = field === "role" && (ROLES as readonly unknown[]).includes(value);
    const origin = isKnownRole ? OWN : field === "content" ? contentOrigin : CONTENT;
    const shown = field === "tool_calls" && Array.isArray(value) ? value.map(withParsedArguments) : value;
    dict.set(Text.own(field), fromOutside(shown, origin));
  }
  return dict;
}

/** Tool calls carry their arguments as JSON text in the OpenAI form; templates expect the object. */
function withParsedArguments(call: { function?: { arguments?: unknown } } | null): unknown {
  const args = call?.function?.arguments;
  if (typeof args !== "string") return call;
  try {
    return { ...call, function: { ...call!.function, arguments: readJson(args, CONTENT) } };
  } catch {
    return call;
  }
}

/** What the template wrote before anything of the request. */
function ownBeginning({ s, origins }: Text): string {
  let end = 0;
  while (end < s.length && origins[end] === OWN) end++;
  return s.slice(0, end);
}

function cutAfterFinal(rendered: Text, content: string): Text {
  const end = rendered.origins.lastIndexOf(FINAL) + 1;
  if (end === 0) throw failed("it does not show the content of the last message, which was to be continued.");
  const kept = rendered.units(0, end);
  // Spaces that the template trims away are what the model is to go on after.
  const trimmed = content.trimEnd();
  return kept.s.endsWith(content.trimStart()) ? kept : kept.concat(Text.of(content.slice(trimmed.length), FINAL));
}

function contentSpans({ origins }: Text): Spans {
  const spans: [number, number][] = [];
  for (const run of origins.matchAll(/[^t]+/g)) spans.push([run.index, run.index + run[0].length]);
  return spans;
}

function failed(reason: string, cause?: unknown): RequestError {
  return new RequestError("template_failed", { reason }, { cause });
}
