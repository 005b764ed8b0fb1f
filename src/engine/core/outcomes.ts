// Reads what the rows of a landed flight gave. Changes no request; the engine settles what it finds here.

import type { Fault, Outcome, Run } from "../../core/outcome.js";
import type { Sampler } from "../../sampler/sampler.js";
import type { Flight } from "./flight.js";
import { poolChunk, pooledVector } from "./pooling.js";
import type { Session } from "./session.js";

export class OutcomeReader {
  readonly #sampler: Sampler;
  readonly #run: Run = { kind: "run", tokens: new Int32Array(1), count: 1, logprobs: null };

  constructor(sampler: Sampler) {
    this.#sampler = sampler;
  }

  /** What the row ends its part of the flight with; null: nothing, it was a chunk in the middle of a prompt. */
  read(flight: Flight, row: number): Outcome | null {
    const session = flight.sessions[row]!;
    if (session.kind !== "generate") return this.#vector(flight, row);
    const logitRow = flight.lastLogit[row]!;
    if (logitRow < 0) return null;
    if (flight.isByDevice[row] === 1) return this.#runOf(flight.tokens.ids[logitRow]!);
    return this.choose(session, flight.logits.row(flight.keptOf[row]!));
  }

  /** Chooses on the host. A grammar or a hook that throws ends its own sample and no other. */
  choose(session: Session, logits: Float32Array): Run | Fault {
    try {
      const run = this.#runOf(this.#sampler.choose(logits, session.request, session.sampling));
      const logprobs = this.#sampler.lastLogprobs;
      run.logprobs = logprobs === null ? null : [logprobs];
      return run;
    } catch (error) {
      return { kind: "fault", error };
    }
  }

  #runOf(token: number): Run {
    const run = this.#run;
    run.tokens[0] = token;
    run.logprobs = null;
    return run;
  }

  #vector(flight: Flight, row: number): Outcome | null {
    const { step } = flight;
    const session = flight.sessions[row]!;
    const end = step.endOf(row);
    poolChunk(session, flight.hidden, flight.keptOf[row]!, step.starts[row]!, end);
    return end < session.request.numTokens ? null : { kind: "vector", values: pooledVector(session) };
  }
}
