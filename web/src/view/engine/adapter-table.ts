// The adapters in memory, and those that requests wait for: who has them, and what of the budget they take. Not there where none was ever asked for.

import { count, percent, plural } from "../../data/format.js";
import type { Stats } from "../../data/wire.js";
import { byId, h, meter, scrollPanel, sectionHead, setText } from "../dom.js";

type EngineStats = NonNullable<Stats["engine"]>;

const COLUMNS = ["Adapter", "State", "Answers", "Memory"];
const MIB = 2 ** 20;

export class AdapterTable {
  readonly #section = byId("adapters");
  readonly #body = h("tbody");
  readonly #summary = h("div", { class: "legend", role: "status" });

  constructor() {
    const note =
      "LoRA adapters on the model. When there is no room for one that a request names, the one that was used least lately leaves; pinned ones stay.";
    const head = h("tr", {}, ...COLUMNS.map((name) => h("th", { scope: "col" }, name)));
    const table = h("table", { class: "cluster-table" }, h("thead", {}, head), this.#body);
    this.#section.append(
      sectionHead("adapters", "Adapters", note),
      scrollPanel("adapters-title", table),
      this.#summary,
    );
  }

  show({ adapters, adapterLimitBytes }: EngineStats): void {
    if (adapters.length === 0 && this.#section.hidden) return;
    this.#section.hidden = false;
    const rows = adapters.map(({ name, isLoaded, isPinned, users, byteLength }) => {
      const state = isLoaded ? (isPinned ? "pinned" : "loaded") : "loading";
      const share = byteLength / adapterLimitBytes;
      return h(
        "tr",
        {},
        h("th", { scope: "row" }, name),
        h("td", { class: "state" }, state),
        h("td", {}, count(users)),
        h("td", {}, meter(share, `${(byteLength / MIB).toFixed(1)} MiB`)),
      );
    });
    const none = h("tr", {}, h("td", { colspan: COLUMNS.length }, "None is in memory."));
    this.#body.replaceChildren(...(rows.length > 0 ? rows : [none]));
    const taken = adapters.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const limit = `${count(Math.round(adapterLimitBytes / MIB))} MiB`;
    setText(this.#summary, `${plural(adapters.length, "adapter")}, ${percent(taken / adapterLimitBytes)} of ${limit}`);
  }
}
