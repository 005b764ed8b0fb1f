// `truncation: "auto"` of the Responses API: the oldest items of a conversation that is too long leave until the rest fits.
// Instructions are no part of it: system and developer messages stay, wherever they stand.

import type { InputItem } from "../openai/responses-schema.js";
import type { ChatPlan } from "./chat-plan.js";

/**
 * The plan of the longest end of the conversation whose prompt leaves room for an answer within `maxLength` tokens. Where none does,
 * the plan of all items, which is refused as it is without truncation.
 */
export async function planFitting(
  items: readonly InputItem[],
  maxLength: number,
  plan: (items: readonly InputItem[]) => Promise<ChatPlan>,
): Promise<ChatPlan> {
  const tryFrom = async (start: number): Promise<ChatPlan | null> => {
    try {
      const made = await plan(itemsFrom(items, start));
      return made.prompt.length < maxLength ? made : null;
    } catch (error) {
      if ((error as { code?: unknown }).code === "context_length_exceeded") return null;
      throw error;
    }
  };
  let best = await tryFrom(0);
  if (best !== null) return best;
  const starts = laterStarts(items);
  for (let low = 0, high = starts.length; low < high; ) {
    const middle = (low + high) >> 1;
    const made = await tryFrom(starts[middle]!);
    if (made === null) low = middle + 1;
    else {
      best = made;
      high = middle;
    }
  }
  return best ?? plan(items);
}

/**
 * Where a conversation may begin instead: with a user's message, as chat templates want it; after the last of them, with what the
 * assistant did next.
 */
export function laterStarts(items: readonly InputItem[]): number[] {
  const lastUser = items.findLastIndex(isUsers);
  return [...items.keys()].filter((i) => {
    if (i === 0) return false;
    const before = items[i - 1]!;
    const isStep = items[i]!.type !== "function_call_output" && before.type !== "function_call";
    return isUsers(items[i]!) || (i > lastUser && isStep);
  });
}

/** Without the outputs of calls that have left: nothing says what they are. */
export function itemsFrom(items: readonly InputItem[], start: number): readonly InputItem[] {
  if (start === 0) return items;
  const rest = items.slice(start);
  const calls = new Set(rest.map((item) => (item.type === "function_call" ? item.call_id : null)));
  const kept = rest.filter((item) => item.type !== "function_call_output" || calls.has(item.call_id));
  return [...items.slice(0, start).filter(isInstruction), ...kept];
}

function isUsers(item: InputItem): boolean {
  return "role" in item && item.role === "user";
}

function isInstruction(item: InputItem): boolean {
  return "role" in item && (item.role === "system" || item.role === "developer");
}
