// Ollama's bodies as OpenAI's.

import type { ConstraintSpec } from "../../grammar/constraint.js";
import { endsWithAnswer, jsonFormat } from "../calls/chat-plan.js";
import type { ChatBody } from "../openai/chat-schema.js";
import { partOfBase64 } from "../schemas/pictures.js";
import type { OllamaChat, OllamaGenerate } from "./schema.js";

export function formatOfOllama({ format }: OllamaChat | OllamaGenerate): ConstraintSpec | null {
  if (format == null || format === "") return null;
  return jsonFormat(format === "json" ? { type: "object" } : format, "format");
}

export function chatOfOllama(body: OllamaChat): ChatBody {
  let numCalls = 0;
  const ids: string[] = [];
  const messages = body.messages.map((message): ChatBody["messages"][number] => {
    const { role, content, thinking, tool_calls, tool_call_id } = message;
    const calls = tool_calls?.map(({ id, function: fn }) => {
      const callId = id ?? `call_${numCalls++}`;
      ids.push(callId);
      return {
        id: callId,
        type: "function" as const,
        function: { name: fn.name, arguments: JSON.stringify(fn.arguments) },
      };
    });
    return {
      role,
      content: withImages(content, message.images),
      ...(thinking == null ? {} : { reasoning_content: thinking }),
      ...(calls === undefined ? {} : { tool_calls: calls }),
      // Results name the tool, not the call: they come in the order of the calls.
      ...(role === "tool" ? { tool_call_id: tool_call_id ?? ids.shift() ?? "call_0" } : {}),
      ...(role === "tool" && message.tool_name != null ? { name: message.tool_name } : {}),
    };
  });
  return {
    ...common(body),
    messages,
    continue_final_message: endsWithAnswer(messages),
    tools: body.tools?.map(({ function: { type: _, ...fn } }) => ({ type: "function" as const, function: fn })),
  };
}

export function chatOfGenerate(body: OllamaGenerate): ChatBody {
  const system = body.system ? [{ role: "system" as const, content: body.system }] : [];
  return {
    ...common(body),
    messages: [...system, { role: "user", content: withImages(body.prompt ?? "", body.images) }],
  };
}

/** Ollama's pictures come before the text. */
function withImages(text: string, images: OllamaGenerate["images"]): ChatBody["messages"][number]["content"] {
  if (images == null || images.length === 0) return text;
  return [...images.map(partOfBase64), { type: "text" as const, text }];
}

function common(body: OllamaChat | OllamaGenerate): Omit<ChatBody, "messages"> {
  const options = body.options ?? {};
  const { think } = body;
  return {
    model: body.model,
    // -1: without end; -2: until the context is full.
    max_tokens: options.num_predict != null && options.num_predict > 0 ? options.num_predict : null,
    temperature: options.temperature,
    top_k: options.top_k,
    top_p: options.top_p,
    min_p: options.min_p,
    seed: options.seed,
    logprobs: body.logprobs,
    top_logprobs: body.top_logprobs,
    stop: options.stop,
    repetition_penalty: options.repeat_penalty,
    presence_penalty: options.presence_penalty,
    frequency_penalty: options.frequency_penalty,
    "speculative.n_max": options.draft_num_predict,
    ...(think == null ? {} : { chat_template_kwargs: { enable_thinking: think !== false } }),
    ...(typeof think === "string" ? { reasoning_effort: think } : {}),
  };
}
