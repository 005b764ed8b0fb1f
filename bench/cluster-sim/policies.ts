// Ways to choose a replica that know nothing of prefixes, to compare with.

import { type Candidate, choose, isFull, type Policy } from "../../src/cluster/router/choose.js";

/** In turn, past those that are full. */
function roundRobin(): Policy {
  let turn = 0;
  return (candidates) => {
    for (let i = 0; i < candidates.length; i++) {
      const candidate = candidates[turn++ % candidates.length]!;
      if (!isFull(candidate)) return candidate;
    }
    return null;
  };
}

/** The fewest calls; among equals, by chance. */
const leastLoad: Policy = (candidates, _, random) => {
  const fewest = Math.min(...candidates.map(({ calls }) => calls));
  const idlest: Candidate[] = candidates.filter((one) => one.calls === fewest && !isFull(one));
  return idlest[Math.floor(random * idlest.length)] ?? null;
};

/** A way to choose, and whether it wants to know what replicas hold. */
export interface NamedPolicy {
  readonly choose: Policy;
  readonly looksAtPrefixes: boolean;
}

export const POLICIES: ReadonlyMap<string, NamedPolicy> = new Map([
  ["round robin", { choose: roundRobin(), looksAtPrefixes: false }],
  ["least load", { choose: leastLoad, looksAtPrefixes: false }],
  ["prefix-aware", { choose, looksAtPrefixes: true }],
]);
