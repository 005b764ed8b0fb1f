// The conversations of this browser: search, open, rename, delete, export, import. Beside the transcript where there is room, over it
// where there is not.

import { type Conversation, searchConversations, titleOf } from "../../data/conversation.js";
import { fileName, fromJson, toJson, toMarkdown } from "../../data/conversation-file.js";
import { newId } from "../../data/new-id.js";
import { confirmDialog } from "../confirm.js";
import { h, setText } from "../dom.js";
import type { ConversationStore } from "./conversation-store.js";

export interface ListActions {
  open(conversation: Conversation): void;
  /** The open one has another name; null: it is gone. */
  changed(conversation: Conversation | null): void;
}

export class ConversationList {
  readonly element: HTMLElement;
  readonly button = h("button", { class: "quiet", type: "button", "aria-expanded": "false" }, "☰");
  readonly #store: ConversationStore;
  readonly #actions: ListActions;
  readonly #search = h("input", { type: "search", placeholder: "Search", "aria-label": "Search conversations" });
  readonly #list = h("ul", { class: "conversations" });
  readonly #status = h("p", { class: "note", role: "status" });
  readonly #file = h("input", { type: "file", accept: ".json,application/json", hidden: true });
  #all: Conversation[] = [];
  #openId = "";
  #isRenaming = false;

  constructor(store: ConversationStore, actions: ListActions) {
    this.#store = store;
    this.#actions = actions;
    this.button.setAttribute("aria-label", "Conversations");
    this.button.setAttribute("aria-controls", "conversations");
    this.button.title = "Conversations (Ctrl+K)";
    const quiet = (text: string, onclick: () => void): HTMLElement =>
      h("button", { class: "quiet small", type: "button", onclick }, text);
    this.element = h(
      "div",
      { class: "conversation-panel", id: "conversations", role: "group", "aria-label": "Conversations", hidden: true },
      this.#search,
      this.#list,
      this.#status,
      h(
        "div",
        { class: "controls" },
        quiet("Import", () => this.#file.click()),
        quiet("Export all", () => download("conversations.json", "application/json", toJson(this.#all))),
        this.#file,
      ),
    );
    this.button.addEventListener("click", () => this.toggle());
    this.#search.addEventListener("input", () => this.#show());
    this.#file.addEventListener("change", () => void this.#import());
    this.element.addEventListener("keydown", (event) => this.#onKey(event));
    addEventListener("keydown", (event) => {
      if (event.key !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      event.preventDefault();
      this.toggle(true);
    });
    void store.isKept().then((isKept) => {
      if (!isKept) setText(this.#status, "This browser keeps nothing: conversations end with the tab.");
    });
  }

  toggle(isOpen = this.element.hidden): void {
    this.element.hidden = !isOpen;
    this.button.setAttribute("aria-expanded", String(isOpen));
    (isOpen ? this.#search : this.button).focus();
    if (isOpen) void this.refresh(this.#openId);
  }

  /** Reads the conversations again; `openId` is the one that is open. */
  async refresh(openId: string): Promise<void> {
    this.#openId = openId;
    if (this.element.hidden) return;
    this.#all = await this.#store.all();
    this.#show();
  }

  #show(): void {
    if (this.#isRenaming) return; // the name under somebody's hands stays; its end shows the list again
    const found = searchConversations(this.#all, this.#search.value);
    const focused = (document.activeElement as HTMLElement | null)?.closest<HTMLElement>("[data-id]")?.dataset.id;
    this.#list.replaceChildren(...found.map((conversation) => this.#item(conversation)));
    if (found.length === 0)
      this.#list.append(
        h("li", { class: "empty" }, this.#all.length === 0 ? "Nothing is kept yet." : "Nothing found."),
      );
    if (focused !== undefined) this.#link(focused)?.focus();
  }

  #item(conversation: Conversation): HTMLElement {
    const title = titleOf(conversation);
    const act = (text: string, deed: () => void): HTMLElement => {
      const onclick = (): void => {
        menu.open = false;
        deed();
      };
      return h("button", { class: "quiet small", type: "button", onclick }, text);
    };
    const menu = h(
      "details",
      { class: "menu" },
      h("summary", { "aria-label": `More for ${title}` }, "⋯"),
      h(
        "div",
        { class: "menu-items" },
        act("Rename", () => this.#rename(conversation)),
        act("Export as JSON", () => download(fileName(title, "json"), "application/json", toJson([conversation]))),
        act("Export as Markdown", () => download(fileName(title, "md"), "text/markdown", toMarkdown(conversation))),
        act("Delete", () => void this.#delete(conversation)),
      ),
    );
    menu.addEventListener("focusout", ({ relatedTarget }) => {
      if (!menu.contains(relatedTarget as Node | null)) menu.open = false;
    });
    const isOpen = conversation.id === this.#openId;
    return h(
      "li",
      { "data-id": conversation.id, class: isOpen ? "open" : null },
      h(
        "button",
        {
          class: "open-it",
          type: "button",
          "aria-current": isOpen ? "true" : null,
          onclick: () => this.#open(conversation),
        },
        h("span", { class: "name" }, title),
        h("time", { datetime: new Date(conversation.updatedMs).toISOString() }, when(conversation.updatedMs)),
      ),
      menu,
    );
  }

  #open(conversation: Conversation): void {
    this.makeWay();
    this.#actions.open(conversation);
  }

  /** For a conversation that is opened: over the transcript the list has done its work, beside it, it may stay. */
  makeWay(): void {
    if (!this.element.hidden && getComputedStyle(this.element).position === "absolute") this.toggle(false);
  }

  #link(id: string): HTMLElement | null {
    return this.#list.querySelector<HTMLElement>(`[data-id="${id}"] .open-it`);
  }

  #rename(conversation: Conversation): void {
    const item = this.#list.querySelector<HTMLElement>(`[data-id="${conversation.id}"]`)!;
    const input = h("input", { type: "text", "aria-label": "Name", maxlength: "120" });
    input.value = titleOf(conversation);
    this.#isRenaming = true;
    const end = async (isKept: boolean): Promise<void> => {
      if (!this.#isRenaming) return;
      this.#isRenaming = false;
      const name = input.value.trim();
      if (isKept && name !== titleOf(conversation)) {
        // An empty name gives the title back to what was said first.
        const renamed = await this.#store.put({ ...conversation, name: name === "" ? null : name });
        if (renamed.id === this.#openId) this.#actions.changed(renamed);
      }
      await this.refresh(this.#openId);
      this.#link(conversation.id)?.focus();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.stopPropagation();
      void end(event.key === "Enter");
    });
    input.addEventListener("blur", () => void end(true));
    item.replaceChildren(input);
    input.select();
  }

  async #delete(conversation: Conversation): Promise<void> {
    const words = `“${titleOf(conversation)}” and all its versions are removed from this browser.`;
    if (!(await confirmDialog("Delete conversation", words, "Delete"))) return;
    await this.#store.remove(conversation.id);
    if (conversation.id === this.#openId) this.#actions.changed(null);
    await this.refresh(this.#openId);
    this.#search.focus();
  }

  async #import(): Promise<void> {
    const file = this.#file.files?.[0];
    if (file === undefined) return;
    try {
      const conversations = fromJson(await file.text(), newId);
      for (const conversation of conversations) await this.#store.put(conversation);
      setText(this.#status, `${conversations.length} imported.`);
      await this.refresh(this.#openId);
      if (conversations.length === 1) this.#open(conversations[0]!);
    } catch (error) {
      setText(this.#status, error instanceof Error ? error.message : String(error));
    }
    this.#file.value = ""; // the same file may be chosen again
  }

  #onKey(event: KeyboardEvent): void {
    const links = [...this.#list.querySelectorAll<HTMLElement>(".open-it")];
    const at = links.indexOf(document.activeElement as HTMLElement);
    const id = links[at]?.closest<HTMLElement>("[data-id]")?.dataset.id;
    const conversation = this.#all.find((known) => known.id === id);
    if (event.key === "Escape") this.toggle(false);
    else if (event.key === "ArrowDown") links[at + 1]?.focus();
    else if (event.key === "ArrowUp") (links[at - 1] ?? this.#search).focus();
    else if (event.key === "F2" && conversation !== undefined) this.#rename(conversation);
    else if (event.key === "Delete" && conversation !== undefined) void this.#delete(conversation);
    else return;
    event.preventDefault();
  }
}

function when(ms: number): string {
  const date = new Date(ms);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday
    ? date.toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hour12: false })
    : date.toLocaleDateString("en", { month: "short", day: "numeric" });
}

function download(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
