// The ways of the last requests through the cluster, for whoever looks at the router's page: what was known when a replica was chosen, where
// the request went, what befell it there.

import { expectedFirstTokenMs, isFull } from "./choose.js";
import type { Journey, JourneyEvent } from "./picture.js";
import type { Choice } from "./placement.js";

type NewEvent = JourneyEvent extends infer E ? (E extends JourneyEvent ? Omit<E, "atMs"> : never) : never;
/** A choice is kept as it was made, and put into words when somebody asks. */
type NewChoice = Choice & { readonly task: "answer" | "prefill" };
type Noted = { readonly atMs: number; readonly event: NewEvent | NewChoice };

const MAX_KEPT = 48;
const MAX_ALTERNATIVES = 7;

interface Kept extends Omit<Journey, "events"> {
  readonly startMs: number;
  readonly noted: Noted[];
}

export class Journeys {
  readonly #kept = new Map<string, Kept>(); // by call id, oldest first

  begin(id: string, model: string, promptTokens: number): void {
    this.#kept.delete(id);
    if (this.#kept.size === MAX_KEPT) this.#kept.delete(this.#kept.keys().next().value!);
    this.#kept.set(id, { id, model, promptTokens, startedMs: Date.now(), startMs: performance.now(), noted: [] });
  }

  note(id: string, event: NewEvent | NewChoice): void {
    const kept = this.#kept.get(id);
    if (isWaiting(event) && isWaiting(kept?.noted.at(-1)?.event)) return; // still
    kept?.noted.push({ atMs: performance.now() - kept.startMs, event });
  }

  /** Newest first. */
  list(): Journey[] {
    return [...this.#kept.values()].reverse().map(({ id, model, promptTokens, startedMs, noted }) => ({
      id,
      model,
      promptTokens,
      startedMs,
      events: noted.map(({ atMs, event }) =>
        "chosen" in event ? inWords(atMs, event, promptTokens) : { atMs, ...event },
      ),
    }));
  }
}

function inWords(atMs: number, { chosen, candidates, task }: NewChoice, promptTokens: number): JourneyEvent {
  const alternatives = candidates
    .filter(({ id }) => id !== chosen.id)
    .map((candidate) => ({
      replica: candidate.id,
      expectedMs: expectedFirstTokenMs(candidate, promptTokens),
      heldTokens: candidate.heldTokens,
      calls: candidate.calls,
      isFull: isFull(candidate),
    }))
    .sort((a, b) => a.expectedMs - b.expectedMs)
    .slice(0, MAX_ALTERNATIVES);
  const { id: replica, heldTokens, fetch = null } = chosen;
  const expectedMs = expectedFirstTokenMs(chosen, promptTokens);
  return { atMs, type: "chosen", replica, task, expectedMs, heldTokens, fetch, alternatives };
}

function isWaiting(event: NewEvent | NewChoice | undefined): boolean {
  return event !== undefined && "type" in event && event.type === "waiting";
}
