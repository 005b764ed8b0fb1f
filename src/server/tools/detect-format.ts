// Which format of tool calls a model's chat template speaks, found by letting it render one.

import type { ServerConfig } from "../../config/server-config.js";
import type { Engine } from "../../engine/types.js";
import { HERMES } from "./hermes.js";
import { LLAMA3 } from "./llama3.js";
import { MISTRAL } from "./mistral.js";
import type { ToolFormat } from "./tool-format.js";

const BY_NAME: Readonly<Record<string, ToolFormat>> = { hermes: HERMES, llama3: LLAMA3, mistral: MISTRAL };

/** "auto" falls back to the Hermes form, the most common one; forced calls work with any model. */
export function toolFormatOf(engine: Engine, choice: ServerConfig["toolParser"]): ToolFormat | null {
  if (choice === "none" || !engine.model.hasChatTemplate) return null;
  if (choice !== "auto") return BY_NAME[choice]!;
  const text = probe(engine);
  if (text.includes("[TOOL_CALLS]") || text.includes("[AVAILABLE_TOOLS]")) return MISTRAL;
  if (
    text.includes("<|python_tag|>") ||
    /"parameters": ?\{"city"/.test(text) ||
    text.includes('"parameters": dictionary')
  )
    return LLAMA3;
  return HERMES;
}

function probe(engine: Engine): string {
  const tool = {
    type: "function",
    function: {
      name: "get_weather",
      description: "Weather of a city",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  };
  const call = { id: "call00001", type: "function", function: { name: "get_weather", arguments: '{"city":"Rome"}' } };
  try {
    return engine.renderChat(
      [
        { role: "user", content: "Weather in Rome?" },
        { role: "assistant", content: "", tool_calls: [call] },
        { role: "tool", content: "sunny", tool_call_id: "call00001", name: "get_weather" },
        { role: "user", content: "Thanks." },
      ],
      { tools: [tool] },
    );
  } catch {
    return ""; // a template without tools may refuse them
  }
}
