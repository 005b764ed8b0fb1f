// A request's way through the cluster in words: one line an event.

import { count, milliseconds, plural } from "./format.js";
import type { Journey, JourneyEvent } from "./wire.js";

export interface WayLine {
  readonly at: string;
  readonly title: string;
  readonly text: string;
  readonly isBad: boolean;
}

/** How it stands, in a word or two. */
export function stateOf({ events }: Journey): string {
  const last = events.at(-1);
  if (last === undefined || last.type === "waiting" || last.type === "lost") return "waits";
  if (last.type === "end") return last.reason;
  return last.type === "first_token" || hasBegun(events) ? "answers" : "prompt";
}

function hasBegun(events: readonly JourneyEvent[]): boolean {
  return events.some(({ type }) => type === "first_token");
}

/** The replica that had it last; null: none did. */
export function replicaOf({ events }: Journey): string | null {
  const chosen = events.findLast((event) => event.type === "chosen");
  return chosen?.type === "chosen" ? chosen.replica : null;
}

export function firstTokenMs({ events }: Journey): number | null {
  return events.find(({ type }) => type === "first_token")?.atMs ?? null;
}

export function linesOf(journey: Journey): WayLine[] {
  const { promptTokens, model, events } = journey;
  const received = {
    at: milliseconds(0),
    title: "Received",
    text: `${plural(promptTokens, "prompt token")} for ${model}`,
  };
  return [{ ...received, isBad: false }, ...events.flatMap((event) => eventLines(event, journey))];
}

function eventLines(event: JourneyEvent, { promptTokens }: Journey): WayLine[] {
  const at = milliseconds(event.atMs);
  const line = (title: string, text: string, isBad = false): WayLine => ({ at, title, text, isBad });
  switch (event.type) {
    case "chosen": {
      const { replica, task, heldTokens, fetch, expectedMs, alternatives } = event;
      const most = Math.max(heldTokens, ...alternatives.map((other) => other.heldTokens));
      const matched = `${replica} holds ${count(heldTokens)} of ${plural(promptTokens, "token")}`;
      const lines = [
        line("Matched", most > heldTokens ? `${matched}; the most that a replica holds is ${count(most)}` : matched),
        line(
          task === "prefill" ? "Prompt to" : "Sent to",
          `${replica}: first token expected after ${milliseconds(expectedMs)}${reasonOf(event)}`,
        ),
      ];
      if (fetch != null)
        lines.push(
          line("Transfer", `${plural(fetch.tokens, "token")} from ${fetch.peer}, about ${milliseconds(fetch.ms)}`),
        );
      return lines;
    }
    case "waiting":
      return [line("Waits", "no replica can take it now", true)];
    case "prefilled":
      return [line("Computed", `${event.replica} has computed the prompt`)];
    case "first_token":
      return [line("First token", `from ${event.replica}`)];
    case "lost":
      return [line("Lost", `${event.replica}: ${event.reason}; ${plural(event.numTokens, "token")} had come`, true)];
    case "end": {
      const { reason, numTokens, cachedTokens } = event;
      const cached = cachedTokens === null ? "" : `, ${count(cachedTokens)} of the prompt cached`;
      return [
        line("End", `${reason} after ${plural(numTokens, "token")}${cached}`, !["stop", "length"].includes(reason)),
      ];
    }
  }
}

function reasonOf({ expectedMs, alternatives }: Extract<JourneyEvent, { type: "chosen" }>): string {
  const next = alternatives.find(({ isFull }) => !isFull);
  if (next === undefined) return alternatives.length > 0 ? ", and all others are full" : ", the only one there is";
  const laterMs = next.expectedMs - expectedMs;
  return laterMs >= 1
    ? `, ${milliseconds(laterMs)} before the next`
    : ", as soon as from others: it holds more, or has fewer calls";
}
