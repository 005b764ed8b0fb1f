// Prefix heat: what prompts have begun with lately, how often it was found, and how many replicas hold it. The hottest first.

import { count, oneLine, percent } from "../../data/format.js";
import type { ClusterPicture } from "../../data/wire.js";
import { byId, h, meter, scrollPanel, sectionHead } from "../dom.js";

const COLUMNS = ["Prefix", "Tokens", "Requests", "Found", "Replicas", "Heat"];
const EXCERPT = 70;

export class HeatTable {
  readonly #body = h("tbody");

  constructor() {
    const note =
      "What prompts of late begin with in common, up to where they part. Found: requests that were sent where it was held. A prefix that is asked for more than its replicas can serve spreads to others.";
    const head = h("tr", {}, ...COLUMNS.map((name) => h("th", { scope: "col" }, name)));
    const table = h("table", { class: "cluster-table heat" }, h("thead", {}, head), this.#body);
    byId("heat").append(sectionHead("heat", "Prefix heat", note), scrollPanel("heat-title", table));
  }

  show({ prefixes, replicas }: ClusterPicture): void {
    const hottest = Math.max(1, ...prefixes.map(heatOf));
    const rows = prefixes.map((prefix) => {
      const { from, to, requests, hits, replicas: numHolders, text, model } = prefix;
      const excerpt = text === undefined ? model : oneLine(text, EXCERPT);
      return h(
        "tr",
        {},
        h("th", { scope: "row", class: "excerpt" }, from > 0 ? `… ${excerpt}` : excerpt),
        h("td", {}, from > 0 ? `${count(from)} to ${count(to)}` : count(to)),
        h("td", {}, count(requests)),
        h("td", {}, percent(hits / requests)),
        h("td", {}, `${count(numHolders)} of ${count(replicas.length)}`),
        h("td", {}, meter(heatOf(prefix) / hottest, count(heatOf(prefix)))),
      );
    });
    const none = h("tr", {}, h("td", { colspan: COLUMNS.length }, "No two prompts have begun alike yet."));
    this.#body.replaceChildren(...(rows.length > 0 ? rows : [none]));
  }
}

/** Prompt tokens that began with it. */
function heatOf({ requests, to }: { readonly requests: number; readonly to: number }): number {
  return requests * to;
}
