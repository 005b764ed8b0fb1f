// Talk to the model: the conversation that is open, and its answers as they come.

import {
  addMessage,
  type Conversation,
  chooseSibling,
  lineageOf,
  type Message,
  newConversation,
  pathOf,
  pendingCall,
  titleOf,
  withoutOldest,
} from "../../data/conversation.js";
import { count } from "../../data/format.js";
import { newId } from "../../data/new-id.js";
import type { RequestColors } from "../../data/request-colors.js";
import type { Usage } from "../../data/wire.js";
import { type Api, ApiFailure } from "../api.js";
import { byId, h, setText } from "../dom.js";
import type { Feed } from "../feed.js";
import { isDark } from "../theme.js";
import { type AnswerEnd, type Question, streamAnswer } from "./answer-stream.js";
import { Composer } from "./composer.js";
import { ConversationList } from "./conversation-list.js";
import { ConversationStore } from "./conversation-store.js";
import { LiveAnswer } from "./live-answer.js";
import { modelPicker } from "./model-picker.js";
import { Parameters } from "./parameters.js";
import { traffic } from "./traffic.js";
import { type LiveTurn, Transcript } from "./transcript.js";
import type { TurnActions } from "./turn.js";

const SUGGESTIONS = [
  "Tell me a story about a dragon.",
  "Write a story with the words boat, fish, friend.",
  "Tell me a story about a girl who finds a key.",
];

export class Playground implements TurnActions {
  readonly #api: Api;
  readonly #feed: Feed;
  readonly #colors: RequestColors;
  readonly #store = new ConversationStore();
  readonly #parameters = new Parameters();
  readonly #transcript = new Transcript(this);
  readonly #list = new ConversationList(this.#store, {
    open: (conversation) => this.#open(conversation),
    changed: (conversation) => this.#adopt(conversation),
  });
  readonly #title = h("h2", { id: "playground-title" }, "Playground");
  readonly #announcer = h("div", { class: "sr-only", "aria-live": "polite" });
  readonly #composer = new Composer({
    send: (text, pictures) => this.#send(text, pictures),
    stop: () => this.#running?.abort(),
    editLast: () => this.#editLast(),
  });
  #conversation = blank();
  /** Messages that no longer fit into the model's context. */
  readonly #forgotten = new Set<string>();
  #running: AbortController | null = null;

  constructor(api: Api, feed: Feed, colors: RequestColors) {
    this.#api = api;
    this.#feed = feed;
    this.#colors = colors;
    byId("playground").append(
      h(
        "div",
        { class: "playground-head" },
        this.#list.button,
        this.#title,
        modelPicker(feed),
        h("button", { class: "quiet", type: "button", onclick: this.#begin }, "New chat"),
      ),
      h(
        "div",
        { class: "playground-body" },
        this.#list.element,
        h(
          "div",
          { class: "talk" },
          this.#transcript.element,
          this.#announcer,
          h(
            "div",
            { class: "drawers" },
            traffic(api, () => feed.model.value),
            this.#parameters.element,
          ),
          this.#composer.element,
        ),
      ),
    );
    feed.model.watch(() => this.#showContext(null));
    feed.stats.watch((stats) => this.#composer.setEyes(stats?.model.hasEyes === true));
    this.#show();
  }

  readonly #begin = (): void => {
    this.#list.makeWay();
    this.#open(null);
  };

  #send(text: string, pictures: () => readonly string[]): boolean {
    if (this.#running !== null || this.#parameters.read() === null) return false;
    this.#say(text, pictures());
    return true;
  }

  #editLast(): boolean {
    const last = pathOf(this.#conversation).findLast(({ role }) => role === "user");
    if (last === undefined || this.#running !== null) return false;
    this.#transcript.turnOf(last.id)?.startEdit();
    return true;
  }

  #say(content: string, images: readonly string[] = []): void {
    const parent = pathOf(this.#conversation).at(-1)?.id ?? "";
    void this.#answer(this.#add({ parent, role: "user", content, ...(images.length === 0 ? {} : { images }) }));
  }

  edit({ parent, role, images }: Message, content: string): void {
    if (this.#running !== null) return;
    const shown = images === undefined ? {} : { images };
    const edited = this.#add({
      parent,
      role,
      content,
      ...shown,
      ...(role === "assistant" ? { facts: ["edited"] } : {}),
    });
    if (role === "user") void this.#answer(edited);
    else this.#show();
  }

  answerAgain(message: Message): void {
    const question = message.role === "assistant" ? message.parent : message.id;
    const [asked] = this.#conversation.messages.filter(({ id }) => id === question);
    if (asked !== undefined) void this.#answer(asked);
  }

  showSibling(message: Message, by: number): void {
    if (this.#running !== null) return;
    chooseSibling(this.#conversation, message, by);
    this.#keep();
    this.#show();
  }

  returnResult({ id }: Message, call: { readonly id: string }, content: string): void {
    if (this.#running !== null) return;
    const result = this.#add({ parent: id, role: "tool", content, toolCallId: call.id });
    if (pendingCall(pathOf(this.#conversation)) === null) void this.#answer(result);
    else this.#show();
  }

  #add(message: Omit<Message, "id" | "createdMs">): Message {
    const whole = { ...message, id: newId(), createdMs: Date.now() };
    addMessage(this.#conversation, whole);
    this.#keep();
    return whole;
  }

  /** Stores the conversation, with the settings as they are now. */
  #keep(): void {
    const conversation = this.#conversation;
    conversation.settings = this.#parameters.values;
    conversation.model = this.#feed.model.value;
    this.#store.put(conversation).then(
      (kept) => {
        if (this.#conversation === conversation) this.#conversation = kept;
        void this.#list.refresh(this.#conversation.id);
      },
      // A full disk, most likely: the conversation goes on, and lasts as long as the tab.
      (error: Error) => this.#composer.say(`not kept: ${error.message}`),
    );
  }

  /** Null: a new one, which is kept once something was said. An answer on its way is stopped, and kept as far as it came. */
  #open(conversation: Conversation | null): void {
    this.#running?.abort();
    this.#conversation = conversation ?? blank();
    this.#forgotten.clear();
    if (conversation !== null) {
      this.#parameters.values = conversation.settings;
      this.#feed.choose(conversation.model);
    }
    this.#show();
    this.#transcript.follow(true);
    this.#showContext(null);
    void this.#list.refresh(this.#conversation.id);
    this.#composer.focus();
  }

  /** The list renamed or removed one. */
  #adopt(conversation: Conversation | null): void {
    if (conversation === null) this.#open(null);
    else this.#conversation = conversation;
    this.#show();
  }

  #show(live: LiveTurn | null = null): ReturnType<Transcript["show"]> {
    const isBlank = this.#conversation.messages.length === 0;
    setText(this.#title, isBlank ? "Playground" : titleOf(this.#conversation));
    if (isBlank) this.#transcript.showWelcome(this.#welcome());
    return isBlank ? null : this.#transcript.show(this.#conversation, this.#forgotten, live);
  }

  #welcome(): HTMLElement {
    return h(
      "div",
      { class: "welcome" },
      h("p", { class: "note" }, "Say something to the model, and watch the engine work."),
      ...SUGGESTIONS.map((text) => h("button", { type: "button", onclick: () => this.#say(text) }, text)),
    );
  }

  async #answer(question: Message): Promise<void> {
    const parameters = this.#parameters.read();
    if (parameters === null || this.#running !== null) {
      this.#show();
      return;
    }
    const running = new AbortController();
    this.#setRunning(running);
    const conversation = this.#conversation;
    const id = newId();
    const lineage = lineageOf(conversation, question.id);
    const turn = this.#show({ id, lineage })!;
    this.#transcript.follow(true);
    const live = new LiveAnswer(
      turn,
      (request) => this.#colors.colorOf(request, isDark.value),
      () => this.#transcript.follow(false),
    );
    let end: AnswerEnd | null = null;
    let error: string | null = null;
    try {
      end = await this.#stream(conversation, { id, lineage }, live, parameters, running.signal);
    } catch (cause) {
      if (!running.signal.aborted) error = cause instanceof Error ? cause.message : String(cause);
    }
    this.#setRunning(null);
    const said = live.finish(end, error === null ? "stopped" : null);
    const model = this.#feed.stats.value?.model.name;
    const message: Message = {
      ...{ id, parent: question.id, role: "assistant", createdMs: Date.now(), ...said },
      ...(model === undefined ? {} : { model }),
      ...(error === null ? {} : { error }),
    };
    addMessage(conversation, message);
    if (this.#conversation.id !== conversation.id) {
      await this.#store.put(conversation).catch(() => undefined); // another one has been opened meanwhile
      return;
    }
    if (this.#conversation !== conversation) addMessage(this.#conversation, message);
    this.#keep();
    this.#show();
    setText(this.#announcer, error ?? turn.body.element.innerText.trim());
    if (end?.usage != null) this.#showContext(end.usage);
    this.#transcript.follow(false);
    // Back to the composer, unless somebody is looking at something else.
    if (document.activeElement === document.body || byId("playground").contains(document.activeElement))
      this.#composer.focus();
  }

  /** Leaves out the oldest exchange and tries again while the conversation is too long for the model. */
  async #stream(
    conversation: Conversation,
    live: LiveTurn,
    sink: LiveAnswer,
    parameters: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<AnswerEnd> {
    const all = live.lineage;
    let messages: readonly Message[] = all.filter(({ id }) => !this.#forgotten.has(id));
    for (;;) {
      const question: Question = {
        ...{ messages, parameters, system: this.#parameters.systemMessage, model: this.#feed.model.value },
        hasChatTemplate: this.#feed.stats.value?.model.hasChatTemplate !== false,
      };
      try {
        return await streamAnswer(this.#api, question, sink, signal);
      } catch (error) {
        const isTooLong = error instanceof ApiFailure && error.code === "context_length_exceeded";
        const fewer = isTooLong ? withoutOldest(messages) : null;
        if (fewer === null) throw error;
        for (const { id } of messages.slice(0, messages.length - fewer.length)) this.#forgotten.add(id);
        messages = fewer;
        if (this.#conversation.id === conversation.id) this.#show(live);
      }
    }
  }

  #showContext(usage: Usage | null): void {
    const limit = this.#feed.stats.value?.model.maxContext;
    const isKnown = usage !== null && limit !== undefined;
    this.#composer.say(isKnown ? `${count(usage.total_tokens)} of ${count(limit)} tokens of context` : "");
  }

  #setRunning(running: AbortController | null): void {
    this.#running = running;
    this.#composer.setRunning(running !== null);
  }
}

function blank(): Conversation {
  return newConversation(newId(), Date.now());
}
