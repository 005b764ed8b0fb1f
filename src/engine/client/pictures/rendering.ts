// A prompt that takes several renderings of its template: what is to be rendered comes out, what was rendered goes in. The same steps serve callers
// that render at once and those that have it done elsewhere.

import type { ChatPrompt, TemplateMessage } from "../../../tokenizer/chat-template.js";
import type { PicturePrompt } from "../../served-engine.js";

export type Rendering<Made = PicturePrompt> = Generator<readonly TemplateMessage[], Made, ChatPrompt>;

export function renderNow(
  steps: Rendering,
  render: (messages: readonly TemplateMessage[]) => ChatPrompt,
): PicturePrompt {
  let step = steps.next();
  while (step.done !== true) {
    let prompt: ChatPrompt;
    try {
      prompt = render(step.value);
    } catch (error) {
      step = steps.throw(error);
      continue;
    }
    step = steps.next(prompt);
  }
  return step.value;
}

export async function renderAside(
  steps: Rendering,
  render: (messages: readonly TemplateMessage[]) => Promise<ChatPrompt>,
): Promise<PicturePrompt> {
  let step = steps.next();
  while (step.done !== true) {
    let prompt: ChatPrompt;
    try {
      prompt = await render(step.value);
    } catch (error) {
      step = steps.throw(error);
      continue;
    }
    step = steps.next(prompt);
  }
  return step.value;
}
