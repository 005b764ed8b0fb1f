// Traffic to look at: many requests at once, so that the engine has batches to make. Two waves overlap, each one HTTP request with
// many prompts, since a browser opens few connections to one server.

import { count } from "../../data/format.js";
import type { Api } from "../api.js";
import { h, setText } from "../dom.js";

const OPENING =
  "Once upon a time, in a small village by the sea, there lived a girl named Lily. She had a red boat and a dog named Max. " +
  "Every day they went to the beach to look for shells. ";
const EVENTS = [
  "they saw a big fish that could talk. ",
  "the boat began to sing. ",
  "Max found a shiny key in the sand. Lily picked it up and asked her mom what it was for. ",
  "it started to rain, and they hid in a cave. It was dark. They heard a sound. ",
  "a boy named Tim came and asked if he could play. ",
  "they met an old man who was sad because he had lost his hat in the wind. ",
  "the sea was gone. ",
  "Lily wanted to build the tallest castle of all. ",
];

/** Alike at the beginning, different and of different lengths after it. */
function promptOf(number: number): string {
  const numEvents = 1 + ((number * 5) % EVENTS.length);
  const events = Array.from({ length: numEvents }, (_, i) => EVENTS[(number + 3 * i) % EVENTS.length]);
  return `${OPENING}On day ${number + 1}, ${events.join("Then ")}`;
}

/** `modelOf` names the model that is chosen; null: the server's only one. */
export function traffic(api: Api, modelOf: () => string | null): HTMLElement {
  const size = h("input", { type: "number", min: "2", max: "128", step: "1", value: "12" });
  const tokens = h("input", { type: "number", min: "1", max: "4096", step: "1", value: "96" });
  const isShared = h("input", { type: "checkbox", checked: true });
  const button = h("button", { type: "button" }, "Start");
  const status = h("span", { class: "soft", role: "status" });
  let running: AbortController | null = null;
  let numDone = 0;
  let numSent = 0;

  const wave = async (half: number, signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      const numPrompts = Math.max(1, Math.floor((size.valueAsNumber + half) / 2));
      const prompt = Array.from({ length: numPrompts }, () => {
        const number = numSent++;
        const text = promptOf(number);
        return isShared.checked ? text : `${number + 1}. ${text}`; // a difference at the start leaves nothing to share
      });
      // The halves end at different times: batches then mix prompts with running answers.
      const max_tokens = Math.max(1, Math.round(tokens.valueAsNumber * (half === 0 ? 1 : 0.6)));
      const model = modelOf();
      const body = { prompt, max_tokens, temperature: 1, ...(model === null ? {} : { model }) };
      await api.post("/v1/completions", body, signal);
      numDone += numPrompts;
      setText(status, `${count(numDone)} answered`);
    }
  };

  button.addEventListener("click", async () => {
    if (running !== null) {
      running.abort();
      return;
    }
    if (!size.reportValidity() || !tokens.reportValidity()) return;
    running = new AbortController();
    const { signal } = running;
    setText(button, "Stop traffic");
    setText(status, "running");
    try {
      await Promise.all([wave(0, signal), wave(1, signal)]);
    } catch (error) {
      if (!signal.aborted) setText(status, error instanceof Error ? error.message : String(error));
    }
    running.abort(); // one wave failed: so ends the other
    running = null;
    setText(button, "Start");
  });

  return h(
    "details",
    { class: "drawer" },
    h("summary", {}, "Traffic"),
    h(
      "div",
      { class: "fields" },
      h(
        "p",
        { class: "note field wide" },
        "Sends many stories at once, again and again, to give the engine batches to make.",
      ),
      h("label", { class: "field" }, "Requests at once", size),
      h("label", { class: "field" }, "Tokens each", tokens),
      h("label", { class: "field check" }, isShared, "Same opening"),
      h("div", { class: "controls field wide check" }, button, status),
    ),
  );
}
