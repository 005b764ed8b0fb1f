// All formats of tool calls, by name.

import { GEMMA4 } from "./gemma4.js";
import { GLM } from "./glm.js";
import { GRANITE } from "./granite.js";
import { HARMONY } from "./harmony.js";
import { HERMES } from "./hermes.js";
import { LLAMA3 } from "./llama3.js";
import { DEEPSEEK, KIMI } from "./marked-calls.js";
import { MISTRAL } from "./mistral.js";
import { LFM2, LLAMA4 } from "./pythonic.js";
import type { ToolFormat } from "./tool-format.js";
import { DEEPSEEK_V4, DEEPSEEK_V32, MINIMAX, QWEN3_CODER, SEED } from "./xml-calls.js";

/** What a chat template shows of each format, the most telling first; Hermes is what remains. */
export const TOOL_FORMATS: readonly (readonly [ToolFormat, RegExp])[] = [
  [HARMONY, /<\|channel\|>[\s\S]*<\|message\|>/],
  [DEEPSEEK_V4, /<｜DSML｜tool_calls>/],
  [DEEPSEEK_V32, /<｜DSML｜function_calls>/],
  [DEEPSEEK, /<｜tool▁calls▁begin｜>/],
  [KIMI, /<\|tool_calls_section_begin\|>/],
  [MINIMAX, /<minimax:tool_call>/],
  [SEED, /<seed:tool_call>/],
  [GLM, /<arg_key>/],
  [QWEN3_CODER, /<function=[\s\S]*<parameter=/],
  [GEMMA4, /<\|tool_call>call:/],
  [LFM2, /<\|tool_call_start\|>|<\|tool_list_start\|>|List of tools: \[/],
  [LLAMA4, /<\|python_start\|>/],
  [GRANITE, /<\|tool_call\|>/],
  [MISTRAL, /\[TOOL_CALLS\]|\[AVAILABLE_TOOLS\]/],
  [LLAMA3, /<\|python_tag\|>|"parameters": ?\{"city"|"parameters": dictionary/],
  [HERMES, /<tool_call>/],
];
