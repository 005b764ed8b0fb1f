// How one model converses: how it writes calls and thoughts, and where its chat template takes tools. Found out by rendering a few small
// conversations, once for each model.

import type { TemplateMessage } from "../tokenizer/chat-template.js";
import type { AnswerForm } from "./answer-plan.js";
import { PROBE_TOOL, reasoningTagsOf, type TemplateView, toolFormatOf } from "./tools/detect-format.js";
import { HERMES } from "./tools/hermes.js";

/**
 * Where a model is told its tools: by its template; else written into the system message, or into the user's first one where the template
 * knows no system messages. null: nowhere, for the answers are not parsed.
 */
export type ToolPlace = "template" | "system" | "user" | null;

export interface ChatForm extends AnswerForm {
  readonly toolPlace: ToolPlace;
}

const found = new WeakMap<object, ChatForm>();

/** What its chat template says; looked for once. */
export function chatFormOf(view: TemplateView): ChatForm {
  let form = found.get(view);
  if (form === undefined) {
    form = findChatForm(view, "auto", "auto");
    found.set(view, form);
  }
  return form;
}

/** The same, and what the server's operator says of it. */
export function findChatForm(view: TemplateView, toolParser: string, reasoningParser: string): ChatForm {
  const reasoningTags = reasoningTagsOf(view, reasoningParser);
  const toolPlace = findPlace(view);
  const ownFormat = toolFormatOf(view, toolParser);
  if (ownFormat === null)
    return { toolFormat: null, reasoningTags, toolPlace: toolPlace === "template" ? toolPlace : null };
  // What is written into a message asks for calls in one form, whatever else the template speaks of.
  const isWritten = toolPlace !== "template" && toolParser === "auto";
  return { toolFormat: isWritten ? HERMES : ownFormat, reasoningTags, toolPlace };
}

function findPlace(view: TemplateView): ToolPlace {
  const user: TemplateMessage = { role: "user", content: "Weather in Rome?" };
  const { name } = PROBE_TOOL.function;
  const shows = (text: string, messages: readonly TemplateMessage[], tools: readonly unknown[]): boolean => {
    try {
      return view.renderProbe(messages, tools).includes(text);
    } catch {
      return false; // it refuses them
    }
  };
  if (shows(name, [user], [PROBE_TOOL])) return "template";
  return shows(name, [{ role: "system", content: name }, user], []) ? "system" : "user";
}
