// Seeds that once found something: tried again on every run, in the order they were found.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const FILE = join(process.cwd(), "test", "fuzz", "seeds.json");

export const KINDS = [
  "bodies",
  "models",
  "pictures",
  "templates",
  "tokenizers",
  "entries",
  "folders",
  "weights",
  "guesses",
] as const;
export type Kind = (typeof KINDS)[number];
export type KeptSeeds = Readonly<Record<Kind, number[]>>;

export function keptSeeds(): KeptSeeds {
  return JSON.parse(readFileSync(FILE, "utf8")) as KeptSeeds;
}

export function keepSeed(kind: Kind, seed: number): void {
  const kept = keptSeeds();
  if (kept[kind].includes(seed)) return;
  kept[kind].push(seed);
  writeFileSync(FILE, `${JSON.stringify(kept, null, 2)}\n`);
}
