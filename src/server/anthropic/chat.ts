// Anthropic's conversations as OpenAI's: results of tools are messages of their own there, thinking is a field of a message.

import type { ConstraintSpec } from "../../grammar/constraint.js";
import { endsWithAnswer, jsonFormat } from "../calls/chat-plan.js";
import type { ChatBody } from "../openai/chat-schema.js";
import { partOfBlock } from "../schemas/pictures.js";
import type { HostedTool } from "../schemas/tools.js";
import type { AnthropicConversation, MessagesBody } from "./schema.js";

type Message = ChatBody["messages"][number];
type Part = Exclude<NonNullable<Message["content"]>, string>[number];
type Block = Exclude<AnthropicConversation["messages"][number]["content"], string>[number];

export function chatOfMessages(body: MessagesBody): ChatBody {
  const choice = body.tool_choice;
  return {
    ...chatOfConversation(body),
    max_tokens: body.max_tokens,
    stream: body.stream,
    stop: body.stop_sequences,
    temperature: body.temperature,
    top_k: body.top_k,
    top_p: body.top_p,
    ...(choice == null ? {} : { tool_choice: choiceOf(choice) }),
    parallel_tool_calls: !(choice != null && "disable_parallel_tool_use" in choice && choice.disable_parallel_tool_use),
  };
}

export function chatOfConversation(body: AnthropicConversation): ChatBody {
  const { thinking, output_config } = body;
  const messages = [...systemOf(body.system), ...body.messages.flatMap(messagesOf)];
  return {
    model: body.model,
    messages,
    continue_final_message: endsWithAnswer(messages),
    tools: body.tools?.map(toolOf),
    ...(thinking == null ? {} : { chat_template_kwargs: { enable_thinking: thinking.type !== "disabled" } }),
    ...(thinking?.type === "enabled" ? { thinking_token_budget: thinking.budget_tokens } : {}),
    ...(output_config?.effort == null ? {} : { reasoning_effort: output_config.effort }),
  };
}

function toolOf(tool: NonNullable<AnthropicConversation["tools"]>[number]): NonNullable<ChatBody["tools"]>[number] {
  if (!isCustom(tool)) return { type: tool.type };
  const { name, description, input_schema: parameters } = tool;
  return { type: "function", function: { name, parameters, ...(description === undefined ? {} : { description }) } };
}

type Tool = NonNullable<AnthropicConversation["tools"]>[number];

function isCustom(tool: Tool): tool is Exclude<Tool, HostedTool> {
  return tool.type == null || tool.type === "custom";
}

export function formatOfMessages({ output_config, output_format }: AnthropicConversation): ConstraintSpec | null {
  if (output_config?.format != null) return jsonFormat(output_config.format.schema, "output_config.format.schema");
  return output_format == null ? null : jsonFormat(output_format.schema, "output_format.schema");
}

/** Claude Code's first line, different in every session and conversation: the prefix cache would share nothing behind it. */
const BILLING = /^x-anthropic-billing-header:[^\n]*\n*/;

function systemOf(system: AnthropicConversation["system"]): Message[] {
  if (system == null || system.length === 0) return [];
  const texts = typeof system === "string" ? [system] : system.map((part) => part.text);
  texts[0] = texts[0]!.replace(BILLING, "");
  const content = (texts[0] === "" ? texts.slice(1) : texts).join("\n");
  return content === "" ? [] : [{ role: "system", content }];
}

function messagesOf({ role, content }: AnthropicConversation["messages"][number]): Message[] {
  if (typeof content === "string") return [{ role, content }];
  const results = content.filter((block) => block.type === "tool_result").map(resultOf);
  const text = content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
  const hasPictures = content.some((block) => block.type === "image");
  const thoughts = content.flatMap((block) => (block.type === "thinking" ? [block.thinking] : [])).join("\n");
  const calls = content.filter((block) => block.type === "tool_use").map(callOf);
  const hasOwn = hasPictures || text !== "" || thoughts !== "" || calls.length > 0 || results.length === 0;
  const message: Message = {
    role,
    content: hasPictures ? content.flatMap(partsOf) : text,
    ...(thoughts === "" ? {} : { reasoning_content: thoughts }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  return hasOwn ? [...results, message] : results;
}

/** Texts and pictures in their order. */
function partsOf(block: Block): Part[] {
  if (block.type === "text") return [{ type: "text", text: block.text }];
  return block.type === "image" ? [partOfBlock(block)] : [];
}

function resultOf(block: Extract<Block, { type: "tool_result" }>): Message {
  const { content = "" } = block;
  const shown =
    typeof content === "string"
      ? content
      : content.some(({ type }) => type === "image")
        ? content.map(
            (part): Part => (part.type === "image" ? partOfBlock(part) : { type: "text", text: wordsOf(part) }),
          )
        : content.map((part) => (part.type === "image" ? "" : wordsOf(part))).join("\n");
  return { role: "tool", tool_call_id: block.tool_use_id, content: shown };
}

function wordsOf(part: { readonly text: string } | { readonly tool_name: string }): string {
  return "text" in part ? part.text : part.tool_name;
}

function callOf(block: Extract<Block, { type: "tool_use" }>): NonNullable<Message["tool_calls"]>[number] {
  return { id: block.id, type: "function", function: { name: block.name, arguments: JSON.stringify(block.input) } };
}

function choiceOf(choice: NonNullable<MessagesBody["tool_choice"]>): NonNullable<ChatBody["tool_choice"]> {
  switch (choice.type) {
    case "auto":
    case "none":
      return choice.type;
    case "any":
      return "required";
    case "tool":
      return { type: "function", function: { name: choice.name } };
  }
}
