// The sampling parameters of the playground: fields that are empty are left to the server's defaults.

import { SAMPLING, type SamplingParam } from "../../../../src/core/sampling.js";
import { SPECULATION_METHODS } from "../../../../src/core/speculation.js";
import { h } from "../dom.js";

/** The numbers of the table that have a label: name in the body, label and attributes of the field. */
const FIELDS = Object.values(SAMPLING as Record<string, SamplingParam>)
  .filter(({ type, label }) => label !== undefined && (type === "number" || type === "integer"))
  .map(({ type, api, label, min, max, default: value, defaultText, help }) => ({
    name: api!,
    label: label!,
    attributes: {
      ...{ min: min!, max: max!, step: type === "integer" ? 1 : "any", title: help },
      placeholder: defaultText ?? String(value),
    },
  }));

const TOOLS_EXAMPLE = '[{ "name": "look_up", "parameters": { "type": "object" } }]';

export class Parameters {
  readonly element: HTMLDetailsElement;
  readonly #inputs: readonly (readonly [(typeof FIELDS)[number], HTMLInputElement])[];
  readonly #stop = h("input", { type: "text", name: "stop", placeholder: "none" });
  readonly #speculative = h("input", {
    ...{ type: "text", name: "speculative", placeholder: "auto", pattern: SPECULATION_METHODS.join("|") },
    title: `How tokens are guessed ahead: ${SPECULATION_METHODS.join(", ")}. Changes the speed, never the answer.`,
  });
  readonly #system = h("textarea", { rows: "2", name: "system", placeholder: "none" });
  readonly #tools = h("textarea", {
    rows: "2",
    name: "tools",
    class: "mono",
    placeholder: TOOLS_EXAMPLE,
    spellcheck: "false",
  });

  constructor() {
    this.#inputs = FIELDS.map((field) => [
      field,
      h("input", { type: "number", name: field.name, ...field.attributes }),
    ]);
    this.element = h(
      "details",
      { class: "drawer" },
      h("summary", {}, "Parameters"),
      h(
        "div",
        { class: "fields" },
        h("label", { class: "field wide" }, "System message", this.#system),
        ...this.#inputs.map(([field, input]) => h("label", { class: "field" }, field.label, input)),
        h("label", { class: "field" }, "Speculation", this.#speculative),
        h("label", { class: "field wide" }, SAMPLING.stop.label, this.#stop),
        h("label", { class: "field wide" }, "Tools, as a JSON list of functions", this.#tools),
      ),
    );
    this.#tools.addEventListener("input", () => this.#readTools());
  }

  get #fields(): readonly (HTMLInputElement | HTMLTextAreaElement)[] {
    return [this.#system, ...this.#inputs.map(([, input]) => input), this.#speculative, this.#stop, this.#tools];
  }

  /** What is typed, by name; empty fields are left out. */
  get values(): Record<string, string> {
    return Object.fromEntries(this.#fields.filter(({ value }) => value !== "").map(({ name, value }) => [name, value]));
  }

  set values(values: Readonly<Record<string, string>>) {
    for (const field of this.#fields) field.value = values[field.name] ?? "";
    this.#readTools();
  }

  get systemMessage(): string {
    return this.#system.value.trim();
  }

  /** The fields of the request body; null when one is out of range, which its field then says. */
  read(): Record<string, unknown> | null {
    const body: Record<string, unknown> = {};
    for (const field of this.#fields) {
      if (field.checkValidity()) continue;
      this.element.open = true; // a closed drawer cannot show what is wrong
      field.reportValidity();
      return null;
    }
    for (const [{ name }, input] of this.#inputs) if (input.value !== "") body[name] = input.valueAsNumber;
    if (this.#speculative.value !== "") body.speculative = this.#speculative.value;
    if (this.#stop.value !== "") body.stop = this.#stop.value;
    const tools = this.#readTools();
    if (tools.length > 0) body.tools = tools;
    return body;
  }

  /** The tools as the API wants them; functions may be given bare. Says in the field what is wrong with it. */
  #readTools(): unknown[] {
    this.#tools.setCustomValidity("");
    if (this.#tools.value.trim() === "") return [];
    try {
      const list: unknown = JSON.parse(this.#tools.value);
      if (!Array.isArray(list)) throw new Error("a list, [ ... ], is wanted");
      return list.map((tool: { type?: unknown }) =>
        tool?.type === "function" ? tool : { type: "function", function: tool },
      );
    } catch (error) {
      this.#tools.setCustomValidity((error as Error).message);
      return [];
    }
  }
}
