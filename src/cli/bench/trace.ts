// A trace: which requests, how long, when. Drawn from a seed, so that two modes, two engines or two runs get the same one.

import { uniformAt } from "../../core/random.js";
import type { Range } from "./benchmark.js";

export interface TraceRequest {
  readonly promptLen: number;
  readonly outputLen: number;
  /** After the start of the run. */
  readonly arrivalMs: number;
}

export interface TraceShape {
  readonly seed: number;
  readonly numRequests: number;
  /** Length of the whole prompt, shared prefix included. */
  readonly inputLen: Range;
  readonly outputLen: Range;
  /** Requests a second; 0: all at once. */
  readonly rate: number;
  readonly arrival: "poisson" | "fixed";
}

// Streams of the generator, one per thing drawn.
const INPUT = 1;
const OUTPUT = 2;
const ARRIVAL = 3;
const PREFIX = 4;
const PROMPT = 5; // and above: one stream per request

export function makeTrace({ seed, numRequests, inputLen, outputLen, rate, arrival }: TraceShape): TraceRequest[] {
  let arrivalMs = 0;
  return Array.from({ length: numRequests }, (_, i) => {
    if (rate > 0 && i > 0) {
      const gap = arrival === "fixed" ? 1 : -Math.log(1 - uniformAt(seed, ARRIVAL, i)); // exponential, mean 1
      arrivalMs += (1000 / rate) * gap;
    }
    return {
      promptLen: within(inputLen, uniformAt(seed, INPUT, i)),
      outputLen: within(outputLen, uniformAt(seed, OUTPUT, i)),
      arrivalMs,
    };
  });
}

/** Prompt `index` of a trace as numbers below `limit`. The first `sharedLen` are the same in all prompts of a seed. */
export function promptNumbers(seed: number, index: number, len: number, sharedLen: number, limit: number): number[] {
  return Array.from({ length: len }, (_, i) => {
    const u = i < sharedLen ? uniformAt(seed, PREFIX, i) : uniformAt(seed, PROMPT + index, i);
    return Math.floor(u * limit);
  });
}

function within({ min, max }: Range, u: number): number {
  return min + Math.floor(u * (max - min + 1));
}
