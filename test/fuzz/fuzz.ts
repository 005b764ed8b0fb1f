// `npm run fuzz -- --seconds N [--seed S] [--what bodies|models|pictures]`: wrong bodies to every route of a real server, wrong model files
// to the loader, wrong pictures to their decoders, in turns, until the time is up; with `--count N`, until there were N of each. A seed that finds something is
// printed and kept. Files go to the folder for temporary ones: TMPDIR=/dev/shm spares the disk.

import { rmSync } from "node:fs";
import { parseArgs } from "node:util";
import { startServer } from "../support/test-server.js";
import { writeTinyCheckpoint } from "../support/tiny-checkpoint.js";
import { requestOf, routesOf, tryRequest } from "./bodies.js";
import { keepSeed, keptSeeds } from "./kept.js";
import { ModelFuzzer } from "./models.js";
import { PictureFuzzer } from "./pictures.js";

const { values } = parseArgs({
  options: {
    seconds: { type: "string" },
    count: { type: "string" },
    seed: { type: "string", default: String(Date.now() % 1e9) },
    what: { type: "string", default: "both" },
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

function found(kind: "bodies" | "models" | "pictures", seed: number, what: string): void {
  numFound++;
  keepSeed(kind, seed);
  console.error(`${kind} seed ${seed}: ${what.slice(0, 1500)}`);
}

const model = writeTinyCheckpoint();
await using host = await startServer(
  { model, maxContext: 48 },
  { maxBodyMb: 1, requestTimeoutSeconds: HANG_MS / 1000 },
);
const routes = await routesOf(host.url);
const models = new ModelFuzzer();
const shown = new PictureFuzzer();
const counts = { bodies: 0, models: 0, pictures: 0 };

async function bodies(seeds: readonly number[]): Promise<void> {
  await Promise.all(
    seeds.map(async (seed) => {
      const request = requestOf(routes, seed);
      const wrong = await tryRequest(host.url, request, HANG_MS);
      counts.bodies++;
      if (wrong !== null) found("bodies", seed, `${wrong}\n  ${request.path} ${request.body}`);
    }),
  );
}

async function files(seeds: readonly number[]): Promise<void> {
  for (const seed of seeds) {
    const wrong = await models.try(seed);
    counts.models++;
    if (wrong !== null) found("models", seed, wrong);
  }
}

async function pictures(seeds: readonly number[]): Promise<void> {
  for (const seed of seeds) {
    const wrong = await shown.try(seed);
    counts.pictures++;
    if (wrong !== null) found("pictures", seed, wrong);
  }
}

const asked = (what: string): boolean => values.what === "both" || values.what === what;
const kept = keptSeeds();
await bodies(kept.bodies);
await files(kept.models);
await pictures(kept.pictures);
const sum = (): string =>
  `${counts.bodies} bodies over ${routes.length} routes, ${counts.models} model files, ${counts.pictures} pictures from seed ${values.seed} in ${((performance.now() - startMs) / 1000).toFixed(0)} s: ${numFound} found`;
for (let done = 0; done < maxCount && performance.now() < endMs; done += BATCH) {
  const seeds = Array.from({ length: Math.min(BATCH, maxCount - done) }, (_, i) => Number(values.seed) + done + i);
  if (asked("bodies")) await bodies(seeds);
  if (asked("models")) await files(seeds);
  if (asked("pictures")) await pictures(seeds);
  if ((done + BATCH) % TELL_EVERY === 0) console.error(sum());
}
models.close();
rmSync(model, { recursive: true });
console.log(sum());
process.exitCode = numFound === 0 ? 0 : 1;
