// The last requests of a router as rows, and the way of the chosen one through the cluster: what matched, where it went and why, what befell it.

import { count, milliseconds, shortId } from "../../data/format.js";
import { firstTokenMs, linesOf, replicaOf, stateOf, type WayLine } from "../../data/way.js";
import type { ClusterPicture, Journey, JourneyEvent } from "../../data/wire.js";
import { byId, h, scrollPanel, sectionHead } from "../dom.js";

const COLUMNS = ["Request", "Prompt", "Replica", "First token", "State"];
const MAX_ROWS = 16;

export class RequestWays {
  readonly #body = h("tbody");
  readonly #way = h("div", { class: "way", tabindex: "0", role: "group", "aria-label": "The way of the request" });
  /** null: the newest. */
  #chosen: string | null = null;
  #requests: readonly Journey[] = [];

  constructor() {
    const note =
      "The last requests of this router, newest first. Choose one to see its way: the prefix that matched, the replica that was chosen and the others, what was fetched, lost and handed on.";
    const head = h("tr", {}, ...COLUMNS.map((name) => h("th", { scope: "col" }, name)));
    const table = h("table", { class: "cluster-table" }, h("thead", {}, head), this.#body);
    byId("requests").append(
      sectionHead("requests", "Requests", note),
      h("div", { class: "panel ways" }, scrollPanel("requests-title", table), this.#way),
    );
  }

  show({ requests }: ClusterPicture): void {
    this.#requests = requests;
    this.#paint();
  }

  #choose(id: string): void {
    this.#chosen = this.#chosen === id ? null : id;
    this.#paint();
  }

  #paint(): void {
    const requests = this.#requests;
    const shown = requests.find(({ id }) => id === this.#chosen) ?? requests[0];
    const focused = document.activeElement?.getAttribute("data-request") ?? null;
    const rows = requests.slice(0, MAX_ROWS).map((request) => this.#row(request, request === shown));
    const none = h("tr", {}, h("td", { colspan: COLUMNS.length }, "No request has come yet."));
    this.#body.replaceChildren(...(rows.length > 0 ? rows : [none]));
    if (focused !== null) this.#body.querySelector<HTMLElement>(`[data-request="${CSS.escape(focused)}"]`)?.focus();
    this.#way.replaceChildren(...(shown === undefined ? [] : wayOf(shown)));
  }

  #row(request: Journey, isShown: boolean): HTMLElement {
    const { id, promptTokens } = request;
    const firstMs = firstTokenMs(request);
    const onclick = (): void => this.#choose(id);
    const name = h(
      "button",
      { class: "quiet mono", type: "button", "data-request": id, "aria-pressed": String(isShown), onclick },
      shortId(id),
    );
    return h(
      "tr",
      { class: isShown ? "shown" : "" },
      h("th", { scope: "row" }, name),
      h("td", {}, count(promptTokens)),
      h("td", {}, replicaOf(request) ?? "–"),
      h("td", {}, firstMs === null ? "–" : milliseconds(firstMs)),
      h("td", {}, stateOf(request)),
    );
  }
}

function wayOf(journey: Journey): HTMLElement[] {
  const chosen = journey.events.findLast((event) => event.type === "chosen");
  return [
    h("h3", {}, "The way of ", h("b", { class: "mono" }, shortId(journey.id))),
    h("ol", {}, ...linesOf(journey).map(item)),
    ...(chosen?.type === "chosen" ? [alternativesOf(chosen)] : []),
  ];
}

function item({ at, title, text, isBad }: WayLine): HTMLElement {
  return h("li", { class: isBad ? "bad" : "" }, h("span", { class: "at" }, at), h("b", {}, title), h("span", {}, text));
}

/** What could have been chosen, the one that was chosen first. */
function alternativesOf(event: Extract<JourneyEvent, { type: "chosen" }>): HTMLElement {
  const { replica, expectedMs, heldTokens, alternatives } = event;
  const row = (name: string, ms: number, held: number, calls: string, isChosen: boolean): HTMLElement =>
    h(
      "tr",
      { class: isChosen ? "shown" : "" },
      h("th", { scope: "row" }, name),
      h("td", {}, milliseconds(ms)),
      h("td", {}, count(held)),
      h("td", {}, calls),
    );
  const columns = ["Replica", "First token expected", "Held", "Calls"].map((name) => h("th", { scope: "col" }, name));
  const others = alternatives.map((other) => {
    const { replica: name, expectedMs: ms, heldTokens: held, calls, isFull } = other;
    return row(name, ms, held, isFull ? `${count(calls)}, full` : count(calls), false);
  });
  return h(
    "table",
    { class: "cluster-table" },
    h("caption", {}, "What could be chosen last"),
    h("thead", {}, h("tr", {}, ...columns)),
    h("tbody", {}, row(replica, expectedMs, heldTokens, "chosen", true), ...others),
  );
}
