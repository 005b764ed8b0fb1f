// Which format of tool calls a model's chat template speaks, found in its text and by letting it render one.

import type { TemplateMessage } from "../../tokenizer/chat-template.js";
import { REASONING_TAGS, type ReasoningTags, THINK } from "../reasoning.js";
import { TOOL_FORMATS } from "./formats.js";
import { HERMES } from "./hermes.js";
import type { ToolFormat } from "./tool-format.js";

/** What is asked of an engine to know how its model writes. */
export interface TemplateView {
  /** null: the model has none. */
  readonly chatTemplate: string | null;
  /** The prompt's text; may throw. */
  renderProbe(messages: readonly TemplateMessage[], tools: readonly unknown[]): string;
}

/** "auto" falls back to the Hermes form, the most common one; forced calls work with any model. */
export function toolFormatOf(view: TemplateView, choice: string): ToolFormat | null {
  if (choice === "none" || view.chatTemplate === null) return null;
  if (choice !== "auto") return TOOL_FORMATS.find(([format]) => format.name === choice)![0];
  return findFormat(probe(view), view.chatTemplate);
}

/** What the template renders tells more than what it is made of, which may speak of other models' markers. */
export function findFormat(rendered: string, source: string): ToolFormat {
  for (const text of [rendered, source]) {
    const found = TOOL_FORMATS.find(([, pattern]) => pattern.test(text));
    if (found !== undefined) return found[0];
  }
  return HERMES;
}

export function reasoningTagsOf(view: Pick<TemplateView, "chatTemplate">, choice: string): ReasoningTags | null {
  if (choice === "none") return null;
  const source = view.chatTemplate ?? "";
  const isSeen = (tags: ReasoningTags): boolean =>
    choice === "auto" ? source.includes(tags.open) : tags.name === choice;
  return REASONING_TAGS.find(isSeen) ?? THINK;
}

export const PROBE_TOOL = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Weather of a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
} as const;

function probe(view: TemplateView): string {
  const call = { id: "call00001", type: "function", function: { name: "get_weather", arguments: '{"city":"Rome"}' } };
  try {
    return view.renderProbe(
      [
        { role: "user", content: "Weather in Rome?" },
        { role: "assistant", content: "", tool_calls: [call] },
        { role: "tool", content: "sunny", tool_call_id: "call00001", name: "get_weather" },
        { role: "user", content: "Thanks." },
      ],
      [PROBE_TOOL],
    );
  } catch {
    return ""; // a template without tools may refuse them
  }
}
