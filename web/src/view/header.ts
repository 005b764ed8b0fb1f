// Who serves, on what, and how it fares.

import { count } from "../data/format.js";
import { isRouter } from "../data/wire.js";
import { byId, h, setText } from "./dom.js";
import type { Feed } from "./feed.js";
import { themeButton } from "./theme.js";
import { viewSwitch } from "./view-switch.js";

const SECTIONS = {
  engine: { live: "Live", adapters: "Adapters", steps: "Steps", pages: "Pages", prefixes: "Prefixes" },
  router: { live: "Live", replicas: "Replicas", requests: "Requests", heat: "Prefix heat" },
} as const;

export function mountHeader(feed: Feed, keyButton: HTMLElement): void {
  const facts = h("div", { class: "facts" });
  const links = h("nav", { "aria-label": "Sections" });
  const switchOfViews = viewSwitch();
  const showLinks = (kind: keyof typeof SECTIONS): void => {
    // A router's sections come to light after its links.
    const shown = Object.entries(SECTIONS[kind]).filter(([id]) => kind === "router" || !byId(id).hidden);
    const ids = shown.map(([id]) => id).join();
    if (links.dataset.ids === ids) return;
    links.dataset.ids = ids;
    links.replaceChildren(...shown.map(([id, name]) => h("a", { href: `#${id}` }, name)));
    switchOfViews.name(kind === "router" ? "Cluster" : "Engine");
  };
  const health = h("div", { class: "health", role: "status" });
  byId("header").append(
    h("h1", { class: "brand" }, h("img", { src: "/favicon.svg", alt: "" }), "Pagoda"),
    facts,
    switchOfViews.element,
    links,
    health,
    keyButton,
    themeButton(),
  );

  const show = (): void => {
    const state = stateOf(feed);
    health.dataset.state = state;
    setText(health, state);
    health.title = feed.stats.value?.health.lastError ?? "";
  };
  feed.connection.watch(show);
  feed.models.watch(show);
  feed.model.watch((name) => facts.replaceChildren(h("span", { class: "model" }, name ?? "")));
  feed.stats.watch((stats) => {
    show();
    if (stats !== null) showLinks(isRouter(stats) ? "router" : "engine");
    if (stats === null || facts.childElementCount > 1) return;
    const { name, architecture, device, maxContext } = stats.model;
    facts.replaceChildren(
      h("span", { class: "model" }, feed.model.value ?? name),
      h("span", { class: "detail" }, architecture),
      h("span", { class: "detail" }, `${count(maxContext)} tokens of context`),
      h("span", {}, device),
    );
  });
  showLinks("engine");
  show();
}

function stateOf({ connection: { value: connection }, stats: { value: stats }, isLoaded }: Feed): string {
  if (connection === "denied") return "API key needed";
  if (connection === "offline") return "offline";
  if (!isLoaded) return "not loaded";
  if (stats === null) return "connecting";
  return stats.server.isDraining ? "draining" : stats.health.state;
}
