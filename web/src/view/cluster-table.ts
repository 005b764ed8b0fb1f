// A router's replicas as rows: load, pages, hit rate. Shown in the place of what only an engine has: steps, pages, prefixes.

import { count, percent, rate } from "../data/format.js";
import type { ClusterView, ReplicaRow } from "../data/wire.js";
import type { Api } from "./api.js";
import { byId, h, sectionHead, setText } from "./dom.js";

const LOOK_MS = 1000;
const COLUMNS = [
  "Replica",
  "State",
  "Calls",
  "Waiting",
  "Pages used",
  "Cached",
  "Hit rate",
  "Prompt tokens/s",
  "Answered",
];

export class ClusterTable {
  readonly #api: Api;
  readonly #body = h("tbody");
  readonly #summary = h("div", { class: "legend", role: "status" });
  #isStarted = false;

  constructor(api: Api) {
    this.#api = api;
  }

  /** The server turns out to be a router. */
  start(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    for (const id of ["steps", "pages", "prefixes"]) byId(id).hidden = true;
    const note =
      "The replicas that this router hears. A request goes where its first token is expected soonest; one whose replica is lost goes on at another.";
    const head = h("tr", {}, ...COLUMNS.map((name) => h("th", { scope: "col" }, name)));
    const table = h("table", { class: "replicas" }, h("thead", {}, head), this.#body);
    byId("cluster").append(
      sectionHead("cluster", "Cluster", note),
      h("div", { class: "panel", tabindex: "0", role: "region", "aria-labelledby": "cluster-title" }, table),
      this.#summary,
    );
    byId("cluster").hidden = false;
    void this.#follow();
  }

  async #follow(): Promise<void> {
    for (;;) {
      try {
        this.#show(await this.#api.json<ClusterView>("/api/cluster"));
      } catch {
        // the header says that the server does not answer
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  #show({ cluster, replicas, resumed, lost }: ClusterView): void {
    const rows = replicas.map((replica) => h("tr", { "data-state": replica.state }, ...cellsOf(replica).map(cell)));
    const none = h("tr", {}, h("td", { colspan: COLUMNS.length }, "No replica is heard."));
    this.#body.replaceChildren(...(rows.length > 0 ? rows : [none]));
    setText(
      this.#summary,
      `cluster ${cluster}: ${count(lost)} replicas lost, ${count(resumed)} answers went on elsewhere`,
    );
  }
}

function cell(text: string, i: number): HTMLElement {
  return i === 0 ? h("th", { scope: "row" }, text) : h("td", {}, text);
}

function cellsOf({ id, state, load }: ReplicaRow): string[] {
  const share = (part: number, whole: number): string => (whole === 0 ? "–" : percent(part / whole));
  return [
    id,
    state,
    count(load.calls.count),
    count(load.waiting),
    share(load.pagesUsed, load.pagesTotal),
    share(load.pagesCached, load.pagesTotal),
    share(load.cachedTokens, load.promptTokens),
    rate(load.tokensPerSecond),
    count(load.requestsFinished),
  ];
}
