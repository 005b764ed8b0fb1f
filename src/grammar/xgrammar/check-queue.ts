// Grammars to be checked in one lane, one after another. Clients take turns: who sends hundreds of grammars waits behind itself, and
// anybody else for one of them at most. They wait here and not in the thread's own queue, so that what nobody waits for any more is
// never begun: clients that ask and leave cost nothing.

import type { Asker, ConstraintSpec } from "../constraint.js";
import type { Lane } from "./lane.js";
import type { Verdict } from "./matcher-messages.js";

export type CheckResult = Verdict | "too slow" | "unwanted";

interface Waiting {
  readonly id: number;
  readonly spec: ConstraintSpec;
  readonly asker: Asker;
  resolve(result: CheckResult): void;
}

export class CheckQueue {
  readonly lane: Pick<Lane, "add" | "warm" | "close">;
  /** By client, the one whose turn is next first; none is empty. */
  readonly #waiting = new Map<string, Waiting[]>();
  /** Who had the last turn. */
  #lastClient: string | null = null;
  #isBusy = false;

  constructor(lane: Pick<Lane, "add" | "warm" | "close">) {
    this.lane = lane;
  }

  check(id: number, spec: ConstraintSpec, asker: Asker): Promise<CheckResult> {
    return new Promise((resolve) => {
      const waiting = { id, spec, asker, resolve };
      const line = this.#waiting.get(asker.client);
      if (line === undefined) this.#waiting.set(asker.client, [waiting]);
      else line.push(waiting);
      this.#next();
    });
  }

  #next(): void {
    while (!this.#isBusy) {
      const next = this.#take();
      if (next === null) return;
      const { id, spec, asker, resolve } = next;
      if (!asker.isWanted()) {
        resolve("unwanted");
        continue;
      }
      const end = (result: CheckResult): void => {
        this.#isBusy = false;
        resolve(result);
        this.#next();
      };
      this.#isBusy = true;
      this.lane.add(id, {
        openMessage: () => ({ type: "check", id, spec }),
        fail: () => end("too slow"),
        answer: end,
      });
    }
  }

  /** The first of the client whose turn it is; that client's next one waits behind those of all others. */
  #take(): Waiting | null {
    for (const [client, line] of this.#waiting) {
      if (client === this.#lastClient && this.#waiting.size > 1) continue;
      this.#lastClient = client;
      this.#waiting.delete(client);
      const first = line.shift()!;
      if (line.length > 0) this.#waiting.set(client, line);
      return first;
    }
    return null;
  }
}
