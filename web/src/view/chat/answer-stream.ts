// Asks the server for an answer to a conversation, and reads it as it comes.

import type { Message, ToolCall } from "../../data/conversation.js";
import type { CompletionChunk, Usage } from "../../data/wire.js";
import type { Api } from "../api.js";

export interface AnswerSink {
  /** The name the server gave the request. */
  begin(requestId: string): void;
  addReasoning(piece: string): void;
  /** `isGuessed`: it was guessed ahead and came true. */
  addText(piece: string, isGuessed: boolean): void;
  /** A call is told piece by piece: its name first, then its arguments. */
  addCall(index: number, piece: Partial<ToolCall>): void;
}

export interface AnswerEnd {
  readonly usage: Usage | null;
  readonly finish: string | null;
}

export interface Question {
  readonly messages: readonly Message[];
  readonly system: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly model: string | null;
  /** Without a chat template the model continues text. */
  readonly hasChatTemplate: boolean;
}

export async function streamAnswer(
  api: Api,
  question: Question,
  sink: AnswerSink,
  signal: AbortSignal,
): Promise<AnswerEnd> {
  const { path, body } = requestOf(question);
  let usage: Usage | null = null;
  let finish: string | null = null;
  for await (const { data } of api.events(path, body, signal, { "x-pagoda-trace": "1" })) {
    if (data === "[DONE]") break;
    const chunk = JSON.parse(data) as CompletionChunk;
    if (chunk.error !== undefined) throw new Error(chunk.error.message);
    sink.begin(chunk.id);
    usage = chunk.usage ?? usage;
    const choice = chunk.choices[0];
    if (choice === undefined) continue;
    const { reasoning_content: reasoning, content = choice.text, tool_calls: calls = [] } = choice.delta ?? {};
    if (reasoning) sink.addReasoning(reasoning);
    if (content) sink.addText(content, choice.delta?.pagoda_guessed === true);
    for (const { index, id, function: piece } of calls)
      sink.addCall(index, { ...piece, ...(id === undefined ? {} : { id }) });
    finish = choice.finish_reason ?? finish;
  }
  return { usage, finish };
}

function requestOf({ messages, system, parameters, model, hasChatTemplate }: Question): {
  path: string;
  body: unknown;
} {
  const common = {
    ...(model === null ? {} : { model }),
    ...parameters,
    ...{ stream: true, stream_options: { include_usage: true } },
  };
  if (!hasChatTemplate) {
    const { tools: _, ...rest } = common as Record<string, unknown>;
    const prompt = messages.map(({ content }) => content).join("\n");
    return { path: "/v1/completions", body: { max_tokens: 256, ...rest, prompt } };
  }
  const told = messages.map(wireMessage);
  const all = system === "" ? told : [{ role: "system", content: system }, ...told];
  return { path: "/v1/chat/completions", body: { ...common, messages: all } };
}

function wireMessage({ role, content, images = [], toolCalls, toolCallId }: Message): Record<string, unknown> {
  if (images.length > 0) {
    const pictures = images.map((url) => ({ type: "image_url", image_url: { url } }));
    return { role, content: [...pictures, ...(content === "" ? [] : [{ type: "text", text: content }])] };
  }
  if (role === "tool") return { role, content, tool_call_id: toolCallId };
  if (toolCalls === undefined) return { role, content };
  const tool_calls = toolCalls.map(({ id, name, arguments: text }) => ({
    ...{ id, type: "function", function: { name, arguments: text } },
  }));
  return { role, content: content === "" ? null : content, tool_calls };
}
