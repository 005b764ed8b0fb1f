// Reads what the rows of a landed flight gave. Changes no request; the engine settles what it finds here.

import type { Fault, Outcome, PromptEnd, Run, Scores } from "../../core/outcome.js";
import { createSampled } from "../../core/sample-row.js";
import type { HostLayer } from "../../models/blocks/host-layers.js";
import { logprobsAt, type Sampler, takeDrawn } from "../../sampler/sampler.js";
import { endsWithPrompt } from "../../scheduler/progress.js";
import type { Flight } from "./flight.js";
import { poolChunk } from "./pooling.js";
import type { Session } from "./session.js";

/** What a pooled vector goes through, by the kind of request. */
export interface VectorLayers {
  readonly embed: HostLayer | null;
  readonly score: HostLayer | null;
}

const PROMPT_END: PromptEnd = { kind: "promptEnd" };

export class OutcomeReader {
  readonly #sampler: Sampler;
  readonly #layers: VectorLayers;
  readonly #run: Run = { kind: "run", sampled: createSampled(0), first: 0, count: 0 };

  constructor(sampler: Sampler, layers: VectorLayers) {
    this.#sampler = sampler;
    this.#layers = layers;
  }

  /** What the row ends its part of the flight with; null: nothing, it was a chunk in the middle of a prompt. */
  read(flight: Flight, row: number): Outcome | null {
    const session = flight.sessions[row]!;
    if (session.kind !== "generate") return this.#vector(flight, row);
    if (flight.lastLogit[row]! >= 0) return this.#draw(flight, row, session, flight.firstDraw[row]!);
    return endsWithPrompt(session.request) && flight.step.endOf(row) === session.request.numTokens ? PROMPT_END : null;
  }

  /** The first token of a further sample of the row's call, from the logits of the first one. */
  readFork(flight: Flight, row: number, child: Session): Run | Fault {
    return this.#draw(flight, row, child, flight.forkOf[row]! + child.request.sampleIndex - 1);
  }

  /** How probable the prompt's tokens were that the row's chunk computed; null: not asked for, or none. */
  readScores(flight: Flight, row: number): Scores | null {
    const { batch, tokens } = flight;
    const { request, promptLogprobs } = flight.sessions[row]!;
    if (promptLogprobs === null) return null;
    const first = flight.firstLogit[row]!;
    const scores: Scores = { kind: "scores", first: batch.positions[batch.logitRows[first]!]!, entries: [] };
    for (let i = first; i < flight.endLogit[row]!; i++) {
      if (batch.positions[batch.logitRows[i]!]! >= request.promptLen - 1) break;
      scores.entries.push(logprobsAt(tokens, i, request.sampling.promptLogprobs!));
    }
    return scores.entries.length === 0 ? null : scores;
  }

  /** A grammar or a hook that throws ends its own sample and no other. */
  #draw(flight: Flight, row: number, { request, sampling }: Session, entry: number): Run | Fault {
    try {
      if (flight.faultOf[row] !== undefined) throw flight.faultOf[row];
      const kept = flight.keptOf[row]!;
      if (kept < 0) takeDrawn(this.#run, flight.tokens, entry, request);
      else this.#sampler.choose(this.#run, flight.logits.row(kept), request, sampling);
      return this.#run;
    } catch (error) {
      return { kind: "fault", error };
    }
  }

  #vector(flight: Flight, row: number): Outcome | null {
    const { step } = flight;
    const session = flight.sessions[row]!;
    const end = step.endOf(row);
    poolChunk(session, flight.hidden, flight.keptOf[row]!, step.starts[row]!, end);
    if (end < session.request.numTokens) return null;
    const vector = session.pooled!.vector();
    const layer = session.kind === "embed" ? this.#layers.embed : session.kind === "score" ? this.#layers.score : null;
    return { kind: "vector", values: layer === null ? vector : layer(vector) };
  }
}
