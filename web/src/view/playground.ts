// Talk to the model: a transcript, a composer, a stop button.

import { count } from "../data/format.js";
import type { RequestColors } from "../data/request-colors.js";
import type { CompletionChunk, Usage } from "../data/wire.js";
import { type Api, ApiFailure } from "./api.js";
import { byId, h, setText } from "./dom.js";
import type { Feed } from "./feed.js";
import { Parameters } from "./parameters.js";
import { isDark } from "./theme.js";
import { traffic } from "./traffic.js";
import { AnswerTurn } from "./turn.js";

const SUGGESTIONS = [
  "Tell me a story about a dragon.",
  "Write a story with the words boat, fish, friend.",
  "Tell me a story about a girl who finds a key.",
];
const ENDINGS: Readonly<Record<string, string>> = { length: "cut at the limit of tokens", abort: "aborted" };

interface Message {
  readonly role: "user" | "assistant";
  readonly content: string;
  readonly element: HTMLElement;
}

export class Playground {
  readonly #api: Api;
  readonly #feed: Feed;
  readonly #colors: RequestColors;
  readonly #parameters = new Parameters();
  readonly #transcript = h("div", { class: "transcript", role: "log", "aria-label": "Conversation", tabindex: "0" });
  readonly #announcer = h("div", { class: "sr-only", "aria-live": "polite" });
  readonly #input = h("textarea", { id: "prompt", rows: "1", placeholder: "Write a message", "aria-label": "Message" });
  readonly #send = h("button", { class: "primary", type: "submit" }, "Send");
  readonly #stop = h("button", { type: "button", hidden: true }, "Stop");
  readonly #context = h("span", { class: "context" });
  #messages: Message[] = [];
  #running: AbortController | null = null;

  constructor(api: Api, feed: Feed, colors: RequestColors) {
    this.#api = api;
    this.#feed = feed;
    this.#colors = colors;
    // Streaming into a live region would be read out piece by piece: the answer is announced when it is whole.
    this.#transcript.setAttribute("aria-live", "off");
    const composer = h(
      "form",
      { class: "composer", onsubmit: this.#onSubmit },
      this.#input,
      h("div", { class: "actions" }, this.#context, this.#stop, this.#send),
    );
    byId("playground").append(
      h(
        "div",
        { class: "playground-head" },
        h("h2", { id: "playground-title" }, "Playground"),
        h("button", { class: "quiet", type: "button", onclick: this.#clear }, "New chat"),
      ),
      this.#transcript,
      this.#announcer,
      traffic(api),
      this.#parameters.element,
      composer,
    );
    this.#stop.addEventListener("click", () => this.#running?.abort());
    this.#input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) this.#onSubmit(event);
      if (event.key === "Escape") this.#running?.abort();
    });
    this.#clear();
  }

  readonly #clear = (): void => {
    this.#running?.abort();
    this.#messages = [];
    this.#transcript.replaceChildren(
      h(
        "div",
        { class: "welcome" },
        h("p", { class: "note" }, "Say something to the model, and watch the engine work."),
        ...SUGGESTIONS.map((text) => h("button", { type: "button", onclick: () => this.#ask(text) }, text)),
      ),
    );
    setText(this.#context, "");
  };

  readonly #onSubmit = (event: Event): void => {
    event.preventDefault();
    const text = this.#input.value.trim();
    if (text === "" || this.#running !== null) return;
    this.#input.value = "";
    void this.#ask(text);
  };

  async #ask(text: string): Promise<void> {
    const parameters = this.#parameters.read();
    if (parameters === null || this.#running !== null) {
      this.#input.value = text;
      return;
    }
    if (this.#messages.length === 0) this.#transcript.replaceChildren();
    const question = h(
      "div",
      { class: "turn user" },
      h("div", { class: "text" }, h("span", { class: "sr-only" }, "You: "), text),
    );
    const turn = new AnswerTurn();
    this.#messages.push({ role: "user", content: text, element: question });
    this.#transcript.append(question, turn.element);
    this.#follow(true);
    const running = new AbortController();
    this.#setRunning(running);
    try {
      await this.#answer(turn, parameters);
      setText(this.#announcer, turn.text);
    } catch (error) {
      if (running.signal.aborted) turn.finish(null, "stopped");
      else turn.fail(error instanceof Error ? error.message : String(error));
    }
    // What was said so far is part of the conversation, unless a new one has begun.
    if (this.#messages.at(-1)?.element === question)
      this.#messages.push({ role: "assistant", content: turn.text, element: turn.element });
    this.#setRunning(null);
    this.#follow(false);
    // Back to the composer, unless somebody is looking at something else.
    if (document.activeElement === document.body || byId("playground").contains(document.activeElement))
      this.#input.focus();
  }

  /** Streams the answer; forgets the oldest exchange and tries again while the conversation is too long for the model. */
  async #answer(turn: AnswerTurn, parameters: Record<string, unknown>): Promise<void> {
    for (;;) {
      try {
        await this.#stream(turn, parameters);
        return;
      } catch (error) {
        const isTooLong = error instanceof ApiFailure && error.code === "prompt_too_long";
        if (!isTooLong || this.#messages.length < 3) throw error;
        for (const { element } of this.#messages.splice(0, 2)) element.classList.add("forgotten");
      }
    }
  }

  async #stream(turn: AnswerTurn, parameters: Record<string, unknown>): Promise<void> {
    const { path, body } = this.#request(parameters);
    let usage: Usage | null = null;
    let finish: string | null = null;
    for await (const { data } of this.#api.events(path, body, this.#running!.signal)) {
      if (data === "[DONE]") break;
      const chunk = JSON.parse(data) as CompletionChunk;
      if (chunk.error !== undefined) throw new Error(chunk.error.message);
      turn.setRequest(chunk.id, this.#colors.colorOf(chunk.id, isDark.value));
      usage = chunk.usage ?? usage;
      const choice = chunk.choices[0];
      if (choice === undefined) continue;
      const piece = choice.delta?.content ?? choice.text ?? "";
      if (choice.delta?.reasoning_content) turn.addReasoning(choice.delta.reasoning_content);
      if (piece !== "") turn.addText(piece);
      finish = choice.finish_reason ?? finish;
      this.#follow(false);
    }
    turn.finish(usage, finish === null ? null : (ENDINGS[finish] ?? null));
    if (usage !== null) this.#showContext(usage);
  }

  #request(parameters: Record<string, unknown>): { path: string; body: unknown } {
    const common = { ...parameters, stream: true, stream_options: { include_usage: true } };
    const messages = this.#messages.map(({ role, content }) => ({ role, content }));
    // A model without a chat template continues text.
    if (this.#feed.stats.value?.model.hasChatTemplate === false) {
      const prompt = messages.map(({ content }) => content).join("\n");
      return { path: "/v1/completions", body: { max_tokens: 256, ...common, prompt } };
    }
    const { systemMessage } = this.#parameters;
    const all = systemMessage === "" ? messages : [{ role: "system", content: systemMessage }, ...messages];
    return { path: "/v1/chat/completions", body: { ...common, messages: all } };
  }

  #showContext(usage: Usage): void {
    const limit = this.#feed.stats.value?.model.maxContext;
    if (limit !== undefined)
      setText(this.#context, `${count(usage.total_tokens)} of ${count(limit)} tokens of context`);
  }

  #setRunning(running: AbortController | null): void {
    this.#running = running;
    this.#stop.hidden = running === null;
    this.#send.hidden = running !== null;
  }

  /** Keeps the end in view for who is at the end. */
  #follow(always: boolean): void {
    const { scrollHeight, scrollTop, clientHeight } = this.#transcript;
    if (always || scrollHeight - scrollTop - clientHeight < 80) this.#transcript.scrollTop = scrollHeight;
  }
}
