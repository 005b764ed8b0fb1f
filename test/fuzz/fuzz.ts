// `npm run fuzz -- --seconds N [--seed S] [--what KIND]`: wrong bodies to every route of a real server, wrong model files and folders to the
// loader, wrong pictures, templates and tokenizers to those who read them, wrong messages to a member of a cluster, broken weights to the
// cpu device, requests to engines that guess ahead, in turns, until the time is up; with `--count N`, until there were N of each. A seed that finds something is printed and kept. Files go to the folder for temporary
// ones: TMPDIR=/dev/shm spares the disk.
//   --every-isa     broken weights on every instruction set of this processor, by turns
//   --goldens DIR   and in the models of this folder too
//   --device NAME   guesses on this device
//   --say           print each seed before it is tried: the last one is what ended the process

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ISAS } from "../support/isas.js";
import { startServer } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";
import { requestOf, routesOf, tryRequest } from "./bodies.js";
import { EntryFuzzer } from "./entries.js";
import { FolderFuzzer } from "./folders.js";
import { GuessFuzzer } from "./guesses.js";
import { KINDS, type Kind, keepSeed, keptSeeds } from "./kept.js";
import { ModelFuzzer } from "./models.js";
import { PictureFuzzer } from "./pictures.js";
import { TemplateFuzzer } from "./templates.js";
import { TokenizerFuzzer } from "./tokenizers.js";
import { WeightFuzzer } from "./weights.js";

const { values } = parseArgs({
  options: {
    seconds: { type: "string" },
    count: { type: "string" },
    seed: { type: "string", default: String(Date.now() % 1e9) },
    what: { type: "string", default: "all" },
    "every-isa": { type: "boolean", default: false },
    goldens: { type: "string", multiple: true, default: [] },
    device: { type: "string", multiple: true, default: [] },
    say: { type: "boolean", default: false },
  },
});
const maxCount = Number(values.count ?? Number.POSITIVE_INFINITY);
const endMs =
  performance.now() + Number(values.seconds ?? (values.count === undefined ? 60 : Number.POSITIVE_INFINITY)) * 1000;
const startMs = performance.now();
const HANG_MS = 120_000; // far more than any body needs, on a busy machine too
const BATCH = 50;
const TELL_EVERY = 10_000;
let numFound = 0;

function found(kind: Kind, seed: number, what: string): void {
  numFound++;
  keepSeed(kind, seed);
  console.error(`${kind} seed ${seed}: ${what.slice(0, 1500)}`);
}

const model = writeTinyCheckpoint();
const batchDir = mkdtempSync(join(tmpdir(), "pagoda-fuzz-"));
await using host = await startServer(
  { model, maxContext: 48 },
  { maxBodyMb: 1, requestTimeoutSeconds: HANG_MS / 1000, batchDir },
);
const routes = await routesOf(host.url);
const models = new ModelFuzzer();
const folders = new FolderFuzzer();
const guesses = new GuessFuzzer({ devices: values.device });
/** What is tried here, one after another; bodies go to a server, many at once. */
const fuzzers: Readonly<
  Record<Exclude<Kind, "bodies">, { try(seed: number): string | null | Promise<string | null> }>
> = {
  models,
  folders,
  pictures: new PictureFuzzer(),
  templates: new TemplateFuzzer(),
  tokenizers: new TokenizerFuzzer(),
  entries: new EntryFuzzer(),
  weights: new WeightFuzzer({ isas: values["every-isa"] ? ISAS : [], goldens: values.goldens }),
  guesses,
};
const counts = new Map<Kind, number>();

async function tryAll(kind: Kind, seeds: readonly number[]): Promise<void> {
  counts.set(kind, (counts.get(kind) ?? 0) + seeds.length);
  if (kind === "bodies") {
    await Promise.all(seeds.map(tryBody));
    return;
  }
  for (const seed of seeds) {
    if (values.say) console.error(`${kind} seed ${seed}`);
    const wrong = await fuzzers[kind].try(seed);
    if (wrong !== null) found(kind, seed, wrong);
  }
}

async function tryBody(seed: number): Promise<void> {
  const request = requestOf(routes, seed);
  const wrong = await tryRequest(host.url, request, HANG_MS);
  if (wrong !== null) found("bodies", seed, `${wrong}\n  ${request.path} ${request.body}`);
}

const asked = KINDS.filter((kind) => values.what === "all" || values.what === kind);
if (asked.length === 0) throw new Error(`--what ${values.what}: it is all or one of ${KINDS.join(", ")}`);
const kept = keptSeeds();
for (const kind of asked) await tryAll(kind, kept[kind]);
const sum = (): string =>
  `${[...counts].map(([kind, count]) => `${count} ${kind}`).join(", ")} from seed ${values.seed} in ${((performance.now() - startMs) / 1000).toFixed(0)} s: ${numFound} found`;
for (let done = 0; done < maxCount && performance.now() < endMs; done += BATCH) {
  const seeds = Array.from({ length: Math.min(BATCH, maxCount - done) }, (_, i) => Number(values.seed) + done + i);
  for (const kind of asked) await tryAll(kind, seeds);
  if ((done + BATCH) % TELL_EVERY === 0) console.error(sum());
}
models.close();
folders.close();
for (const folder of [model, batchDir]) rmSync(folder, { recursive: true });
console.log(sum());
if (counts.has("guesses")) console.log(guesses.facts);
process.exitCode = numFound === 0 ? 0 : 1;
