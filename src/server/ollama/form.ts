// How Ollama's API writes errors and times.

import type { HttpError } from "../http/api-error.js";

/** Durations are told in nanoseconds. */
export const NS_PER_MS = 1e6;

export function shapeError({ body }: HttpError): { error: string } {
  return { error: body.error.message };
}
