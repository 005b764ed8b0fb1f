// A request of the Responses API as OpenAI's older one: items become messages. Calls and thoughts that stand before an assistant's
// text belong to its message.

import type { ConstraintSpec } from "../../grammar/constraint.js";
import { jsonFormat } from "../calls/chat-plan.js";
import { ApiError } from "../http/api-error.js";
import { partOfUrl } from "../schemas/pictures.js";
import type { ChatBody } from "./chat-schema.js";
import type { FunctionTool, InputItem, Namespace, ResponseBody } from "./responses-schema.js";

type Message = ChatBody["messages"][number];

export function itemsOf(input: ResponseBody["input"]): readonly InputItem[] {
  return typeof input === "string" ? [{ role: "user", content: input }] : input;
}

/** An input item as it is listed: what may be left out of a request is spelt out. */
export function listedItem(item: InputItem, index: number): Record<string, unknown> {
  const listed = { id: `item_${index}`, ...item };
  if (!("role" in item)) return listed;
  const type = item.role === "assistant" ? "output_text" : "input_text";
  const content = typeof item.content === "string" ? [{ type, text: item.content }] : item.content;
  return { ...listed, type: "message", status: "completed", content };
}

export function formatOfResponse(body: ResponseBody): ConstraintSpec | null {
  const format = body.text?.format;
  if (format?.type === "json_object") return jsonFormat({ type: "object" }, "text.format");
  return format?.type === "json_schema" ? jsonFormat(format.schema, "text.format.schema") : null;
}

export function chatOfResponse(body: ResponseBody, items: readonly InputItem[]): ChatBody {
  const wantsLogprobs = body.top_logprobs != null || body.include?.includes("message.output_text.logprobs") === true;
  const instructions: Message[] = body.instructions ? [{ role: "system", content: body.instructions }] : [];
  return {
    model: body.model,
    messages: [...instructions, ...messagesOf(items)],
    max_tokens: body.max_output_tokens,
    temperature: body.temperature,
    top_p: body.top_p,
    seed: body.seed,
    cache_salt: body.cache_salt,
    ...(wantsLogprobs ? { logprobs: true, top_logprobs: body.top_logprobs ?? 0 } : {}),
    tools: body.tools?.flatMap((tool) => toolsOf(tool)),
    ...(body.tool_choice == null ? {} : { tool_choice: choiceOf(body.tool_choice) }),
    parallel_tool_calls: body.parallel_tool_calls,
    reasoning_effort: body.reasoning?.effort,
  };
}

type Tool = NonNullable<ResponseBody["tools"]>[number];

function toolsOf(tool: Tool, namespace?: string): NonNullable<ChatBody["tools"]> {
  if (isNamespace(tool)) return tool.tools.flatMap((inner) => toolsOf(inner, tool.name));
  if (!isFunction(tool)) return [{ type: tool.type }];
  const { name, description, parameters } = tool;
  const fn = {
    name: qualified(name, namespace),
    ...(description == null ? {} : { description }),
    ...(parameters == null ? {} : { parameters }),
  };
  return [{ type: "function", function: fn }];
}

function isFunction(tool: Tool): tool is FunctionTool {
  return tool.type === "function";
}

function isNamespace(tool: Tool): tool is Namespace {
  return tool.type === "namespace";
}

/** How the model is told of a tool in a namespace: one name for both. */
function qualified(name: string, namespace: string | null | undefined): string {
  return namespace == null || namespace === "" ? name : `${namespace}${namespace.endsWith("__") ? "" : "__"}${name}`;
}

/** What the client calls a tool by whose name the model called. */
export function clientNames({ tools }: ResponseBody): ReadonlyMap<string, { name: string; namespace: string }> {
  const names = new Map<string, { name: string; namespace: string }>();
  for (const tool of tools ?? []) {
    if (!isNamespace(tool)) continue;
    for (const inner of tool.tools)
      if (isFunction(inner)) names.set(qualified(inner.name, tool.name), { name: inner.name, namespace: tool.name });
  }
  return names;
}

function choiceOf(choice: NonNullable<ResponseBody["tool_choice"]>): NonNullable<ChatBody["tool_choice"]> {
  if (typeof choice === "string") return choice;
  const named = (name: string) => ({ type: "function" as const, function: { name } });
  if (choice.type === "function") return named(choice.name);
  return {
    type: "allowed_tools",
    allowed_tools: { mode: choice.mode, tools: choice.tools.map((tool) => named(tool.name)) },
  };
}

function messagesOf(items: readonly InputItem[]): Message[] {
  const messages: Message[] = [];
  let open: Message | null = null; // the assistant's, while calls and thoughts are added to it
  const assistant = (): Message => {
    if (open === null) {
      open = { role: "assistant", content: "" };
      messages.push(open);
    }
    return open;
  };
  items.forEach((item, i) => {
    if ("role" in item) {
      if (item.role === "assistant") assistant().content += textOf(item.content);
      else messages.push({ role: item.role, content: contentOf(item.content) });
      if (item.role !== "assistant") open = null;
    } else if (item.type === "function_call") {
      const call = {
        id: item.call_id,
        type: "function" as const,
        function: { name: qualified(item.name, item.namespace), arguments: item.arguments },
      };
      const message = assistant();
      message.tool_calls = [...(message.tool_calls ?? []), call];
    } else if (item.type === "function_call_output") {
      open = null;
      messages.push({ role: "tool", tool_call_id: item.call_id, content: contentOf(item.output) });
    } else if (item.type === "reasoning") {
      const text = item.content?.map((part) => part.text).join("") ?? "";
      if (text !== "") assistant().reasoning_content = (assistant().reasoning_content ?? "") + text;
    } else {
      const param = `input.${i}.id`;
      const message = `There is no item ${JSON.stringify(item.id)} here; send the item itself, or use previous_response_id.`;
      throw new ApiError("item_not_found", message, { param });
    }
  });
  return messages;
}

type Content = Extract<InputItem, { role: unknown }>["content"];

function textOf(content: Content): string {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "input_image" ? "" : (part.text ?? part.refusal ?? ""))).join("\n");
}

/** Parts where there are pictures, else their text. */
function contentOf(content: Content): NonNullable<Message["content"]> {
  if (typeof content === "string" || !content.some(({ type }) => type === "input_image")) return textOf(content);
  return content.map((part) =>
    part.type === "input_image"
      ? partOfUrl(part.image_url, part.detail)
      : { type: "text" as const, text: part.text ?? part.refusal ?? "" },
  );
}
