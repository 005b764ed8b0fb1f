// The messages that are shown, each a turn. A message keeps its element while it is shown, so only what changed is touched.

import { type Conversation, type Message, pathOf, pendingCall, siblingsOf } from "../../data/conversation.js";
import { h } from "../dom.js";
import { Turn, type TurnActions } from "./turn.js";

/** Who is this near to the end is kept there. */
const NEAR_END = 80;

export class Transcript {
  readonly element = h("div", { class: "transcript", role: "log", "aria-label": "Conversation", tabindex: "0" });
  readonly #list = h("div", { class: "turns" });
  readonly #actions: TurnActions;
  #turns = new Map<string, Turn>(); // by message

  constructor(actions: TurnActions) {
    this.#actions = actions;
    // Streaming into a live region would be read out piece by piece: the answer is announced when it is whole.
    this.element.setAttribute("aria-live", "off");
    this.element.append(this.#list);
  }

  /**
   * Shows a conversation; `forgotten` messages of it the model does not see any more. While an answer is on its way, `live` says to
   * what, and its turn is returned.
   */
  show(conversation: Conversation, forgotten: ReadonlySet<string>, live: LiveTurn | null): Turn | null {
    const path = live?.lineage ?? pathOf(conversation);
    const pending = live === null ? pendingCall(path) : null;
    const turns = new Map<string, Turn>();
    path.forEach((message, i) => {
      const turn = this.#turnOf(message.id, message.role);
      turn.settle(message);
      turn.element.classList.toggle("forgotten", forgotten.has(message.id));
      const isLast = i === path.length - 1 && live === null;
      const siblings = siblingsOf(conversation, message);
      turn.offer({ siblings, isLast, isRunning: live !== null, pending: isLast ? pending : null });
      turns.set(message.id, turn);
    });
    const coming = live === null ? null : this.#turnOf(live.id, "assistant");
    if (coming !== null) turns.set(live!.id, coming);
    this.#turns = turns;
    const elements = [...turns.values()].map(({ element }) => element);
    const isSame =
      elements.length === this.#list.childElementCount && elements.every((e, i) => e === this.#list.children[i]);
    if (!isSame) this.#list.replaceChildren(...elements);
    return coming;
  }

  #turnOf(id: string, role: Message["role"]): Turn {
    return this.#turns.get(id) ?? new Turn(role, this.#actions);
  }

  /** In place of a conversation that has not begun. */
  showWelcome(welcome: HTMLElement): void {
    this.#turns.clear();
    this.#list.replaceChildren(welcome);
  }

  turnOf(id: string): Turn | undefined {
    return this.#turns.get(id);
  }

  /** Keeps the end in view for who is at the end. */
  follow(always: boolean): void {
    const { scrollHeight, scrollTop, clientHeight } = this.element;
    if (always || scrollHeight - scrollTop - clientHeight < NEAR_END) this.element.scrollTop = scrollHeight;
  }
}

/** An answer on its way: the messages it answers, and the message it becomes. */
export interface LiveTurn {
  readonly id: string;
  readonly lineage: readonly Message[];
}
