// Which of the server's models answers, and is watched. Hidden where there is but one.

import type { ServedModel } from "../../data/wire.js";
import { h } from "../dom.js";
import type { Feed } from "../feed.js";

export function modelPicker(feed: Feed): HTMLElement {
  const select = h("select", { class: "model-picker", "aria-label": "Model", hidden: true });
  let shown = "";
  const show = (): void => {
    const models = feed.models.value;
    const chosen = feed.model.value ?? models[0]?.id ?? "";
    select.hidden = models.length < 2;
    const state = JSON.stringify([models, chosen]);
    if (state === shown) return; // an open list is left alone
    shown = state;
    select.replaceChildren(...(models.length < 2 ? [] : models.map(optionOf)));
    select.value = chosen;
  };
  select.addEventListener("change", () => feed.choose(select.value));
  feed.models.watch(show);
  feed.model.watch(show);
  return select;
}

function optionOf({ id, is_loaded }: ServedModel): HTMLElement {
  return h("option", { value: id }, is_loaded ? id : `${id} (not loaded)`);
}
