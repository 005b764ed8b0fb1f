// The sampling parameters of the playground: fields that are empty are left to the server's defaults.

import { h } from "./dom.js";

interface Field {
  readonly name: string;
  readonly label: string;
  readonly placeholder: string;
  /** Of a number field; text without. */
  readonly range?: { readonly min: number; readonly max?: number; readonly step: number | "any" };
}

const FIELDS: readonly Field[] = [
  { name: "temperature", label: "Temperature", placeholder: "default", range: { min: 0, max: 100, step: "any" } },
  { name: "top_p", label: "Top p", placeholder: "default", range: { min: 0, max: 1, step: "any" } },
  { name: "top_k", label: "Top k", placeholder: "default", range: { min: 0, step: 1 } },
  { name: "min_p", label: "Min p", placeholder: "default", range: { min: 0, max: 1, step: "any" } },
  {
    name: "repetition_penalty",
    label: "Repetition",
    placeholder: "default",
    range: { min: 0.01, max: 100, step: "any" },
  },
  { name: "presence_penalty", label: "Presence", placeholder: "0", range: { min: -2, max: 2, step: "any" } },
  { name: "frequency_penalty", label: "Frequency", placeholder: "0", range: { min: -2, max: 2, step: "any" } },
  { name: "max_tokens", label: "Max tokens", placeholder: "no limit", range: { min: 1, step: 1 } },
  { name: "seed", label: "Seed", placeholder: "random", range: { min: 0, step: 1 } },
];

export class Parameters {
  readonly element: HTMLElement;
  readonly #inputs: readonly (readonly [Field, HTMLInputElement])[];
  readonly #stop = h("input", { type: "text", placeholder: "none" });
  readonly #system = h("textarea", { rows: "2", placeholder: "none" });

  constructor() {
    this.#inputs = FIELDS.map((field) => [
      field,
      h("input", { type: "number", name: field.name, placeholder: field.placeholder, ...field.range }),
    ]);
    this.element = h(
      "details",
      { class: "drawer" },
      h("summary", {}, "Parameters"),
      h(
        "div",
        { class: "fields" },
        ...this.#inputs.map(([field, input]) => h("label", { class: "field" }, field.label, input)),
        h("label", { class: "field wide" }, "Stop at this text", this.#stop),
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
