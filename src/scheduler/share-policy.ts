// Whose turn it is, where a step's budget or the pages are short: one client's requests go in order (in-order.ts), several clients share
// (fair/fair-share.ts). The scheduler asks one of them in each step.

import type { Request } from "../core/request.js";
import type { Step } from "./step.js";

export interface SharePolicy {
  /** The running request that is preempted to make room for another one. */
  victim(request: Request): Request;
  /** Requests that the order alone would not let in yet. false: somebody must go first, and cannot before all flights have landed. */
  admit(step: Step, isInFlight: boolean): boolean;
  /** Decodes go into the step while more than `reserved` of its budget is left. */
  placeDecodes(reserved: number): void;
  /** Chunks go into the step. true: the prompt whose turn it was got nothing, for decodes had used up the budget. */
  placeChunks(): boolean;
}
