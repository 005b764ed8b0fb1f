// How a family of models writes tool calls: a parser that reads them out of streamed text, and the shape that forced ones take.

import type { CallShape } from "../../grammar/call-grammar.js";

export type ToolEvent =
  | { readonly kind: "text"; readonly text: string }
  /** Only from formats that mark reasoning in the same way as calls. */
  | { readonly kind: "reasoning"; readonly text: string }
  | { readonly kind: "call"; readonly index: number; readonly name: string }
  | { readonly kind: "arguments"; readonly index: number; readonly text: string };

/** Fed with the text of one sample as it comes; what may still become a call is held back. */
export interface ToolParser {
  push(text: string): ToolEvent[];
  /** The rest, when no text will follow. */
  flush(): ToolEvent[];
}

/** The tools of a request, as parsers need to know them. */
export interface ToolSet {
  readonly names: ReadonlySet<string>;
  /** The JSON schema of a tool's parameter, where there is one. */
  parameter(tool: string, name: string): unknown;
}

export interface ToolFormat {
  readonly name: string;
  /** Its markers are special tokens, which must stay in the text for the parser to see them. */
  readonly needsSpecialTokens: boolean;
  /** How calls are forced; null for forms that no JSON grammar gives: forced calls are then those of Hermes. */
  readonly shape: CallShape | null;
  /** The parser also parts reasoning from the answer, and so is needed without tools too. */
  readonly partsReasoning?: boolean;
  createParser(tools: ToolSet): ToolParser;
}
