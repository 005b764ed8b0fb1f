// Ways to choose a replica that know nothing of prefixes, to compare with.

import { type Candidate, choose, isFull, type Policy } from "../../src/cluster/choose.js";

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

export const POLICIES: ReadonlyMap<string, Policy> = new Map([
  ["round robin", roundRobin()],
  ["least load", leastLoad],
  ["prefix-aware", choose],
]);
