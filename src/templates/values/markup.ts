// Markup: text marked as safe HTML (the filter `safe`). Templates of chats never escape, but joining with Markup does.

import type { Text } from "./text.js";

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  ">": "&gt;",
  "<": "&lt;",
  "'": "&#39;",
  '"': "&#34;",
};

/** As Markup; what is not yet is escaped. */
export function escapeMarkup(text: Text): Text {
  if (text.isMarkup) return text;
  return text.mapChars((char) => ENTITIES[char] ?? char).asMarkup(true);
}
