// The sampling parameters of the playground: fields that are empty are left to the server's defaults.

import { SAMPLING, type SamplingParam } from "../../../src/core/sampling.js";
import { h } from "./dom.js";

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

export class Parameters {
  readonly element: HTMLElement;
  readonly #inputs: readonly (readonly [(typeof FIELDS)[number], HTMLInputElement])[];
  readonly #stop = h("input", { type: "text", placeholder: "none" });
  readonly #system = h("textarea", { rows: "2", placeholder: "none" });

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
        ...this.#inputs.map(([field, input]) => h("label", { class: "field" }, field.label, input)),
        h("label", { class: "field wide" }, SAMPLING.stop.label, this.#stop),
        h("label", { class: "field wide" }, "System message", this.#system),
      ),
    );
  }

  get systemMessage(): string {
    return this.#system.value.trim();
  }

  /** The fields of the request body; null when one is out of range, which its field then says. */
  read(): Record<string, unknown> | null {
    const body: Record<string, unknown> = {};
    for (const [{ name }, input] of this.#inputs) {
      if (!input.checkValidity()) {
        (this.element as HTMLDetailsElement).open = true; // a closed drawer cannot show what is wrong
        input.reportValidity();
        return null;
      }
      if (input.value !== "") body[name] = input.valueAsNumber;
    }
    if (this.#stop.value !== "") body.stop = this.#stop.value;
    return body;
  }
}
