// A checkpoint on the caller's thread, where chats are rendered. The engine's needs no template, nor the 35 modules that read one.

import { ChatTemplate } from "../../tokenizer/chat-template.js";
import { type Checkpoint, openCheckpoint } from "../checkpoint.js";

export interface ChatCheckpoint extends Checkpoint {
  /** null when the checkpoint brings none. */
  readonly chatTemplate: ChatTemplate | null;
}

/** `mmproj`: as openCheckpoint() takes it. */
export function openChatCheckpoint(model: string, mmproj?: string | null): ChatCheckpoint {
  const checkpoint = openCheckpoint(model, mmproj);
  const { templates, tokenizer } = checkpoint;
  const chatTemplate =
    templates.size === 0
      ? null
      : new ChatTemplate(templates, tokenizer?.specialTokens ?? {}, tokenizer?.chatPrefix ?? "");
  return { ...checkpoint, chatTemplate };
}
