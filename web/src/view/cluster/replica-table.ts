// A router's replicas as rows: role, load, pages, hit rate, latency.

import { count, milliseconds, percent, plural, rate } from "../../data/format.js";
import type { ClusterPicture, ReplicaPicture } from "../../data/wire.js";
import { byId, h, meter, scrollPanel, sectionHead, setText } from "../dom.js";

const COLUMNS = [
  ...["Replica", "Role", "State", "Calls", "Waiting", "Pages used", "Cached", "Hit rate"],
  ...["First token p50", "p99", "Prompt tokens/s", "Answered"],
];

export class ReplicaTable {
  readonly #body = h("tbody");
  readonly #summary = h("div", { class: "legend", role: "status" });

  constructor() {
    const note =
      "The replicas that this router knows. It sends a request where the first token is expected soonest. If a replica is lost, its requests continue on another.";
    const head = h("tr", {}, ...COLUMNS.map((name) => h("th", { scope: "col" }, name)));
    const table = h("table", { class: "cluster-table" }, h("thead", {}, head), this.#body);
    byId("replicas").append(
      sectionHead("replicas", "Replicas", note),
      scrollPanel("replicas-title", table),
      this.#summary,
    );
  }

  show({ cluster, replicas, resumed, prefilled, lost }: ClusterPicture): void {
    const rows = replicas.map((replica) => h("tr", { "data-state": replica.state }, ...cellsOf(replica)));
    const none = h("tr", {}, h("td", { colspan: COLUMNS.length }, "No replica is heard."));
    this.#body.replaceChildren(...(rows.length > 0 ? rows : [none]));
    const facts = [
      `cluster ${cluster}: ${plural(replicas.length, "replica")}`,
      `${count(lost)} lost`,
      `${plural(resumed, "answer")} went on elsewhere`,
      `${plural(prefilled, "prompt")} computed for others`,
    ];
    setText(this.#summary, facts.join(", "));
  }
}

function cellsOf({ id, role, state, slots, load, firstTokenMs }: ReplicaPicture): HTMLElement[] {
  const share = (part: number, whole: number): HTMLElement =>
    whole === 0 ? h("td", {}, "–") : h("td", {}, meter(part / whole, percent(part / whole)));
  const time = (ms: number | undefined): HTMLElement => h("td", {}, ms === undefined ? "–" : milliseconds(ms));
  const { calls, waiting, pagesUsed, pagesCached, pagesTotal, cachedTokens, promptTokens } = load;
  return [
    h("th", { scope: "row" }, id),
    h("td", {}, role),
    h("td", { class: "state" }, state),
    h("td", {}, meter(calls.count / slots, `${count(calls.count)} of ${count(slots)}`)),
    h("td", {}, count(waiting)),
    share(pagesUsed, pagesTotal),
    share(pagesCached, pagesTotal),
    share(cachedTokens, promptTokens),
    time(firstTokenMs?.p50),
    time(firstTokenMs?.p99),
    h("td", {}, rate(load.tokensPerSecond)),
    h("td", {}, count(load.requestsFinished)),
  ];
}
