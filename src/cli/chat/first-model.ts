// `pagoda chat` at a terminal without a model: a short list of models that fit this machine, with what the hub says of their size and what
// this machine's memory allows in speed. The chosen one is pulled. Without the hub it is the bundled model, and that is said.

import { availableMemory } from "../../device/host.js";
import { type Environment, hubCachePath, listCache } from "../../formats/hub/hub-cache.js";
import { sizeOf } from "../../formats/hub/hub-pull.js";
import { bytes } from "../terminal.js";

/** Small models that answer well, smallest first. The sizes are the hub's to tell. */
const SUGGESTED: readonly Suggestion[] = [
  { spec: "unsloth/Qwen3-0.6B-GGUF:Q4_K_M", about: "quick; simple questions" },
  { spec: "unsloth/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", about: "quick; short texts" },
  { spec: "unsloth/Qwen3-1.7B-GGUF:Q4_K_M", about: "reasons before it answers" },
  { spec: "unsloth/gemma-3-4b-it-GGUF:Q4_K_M", about: "many languages" },
  { spec: "unsloth/Qwen3-4B-Instruct-2507-GGUF:Q4_K_M", about: "good answers, tools" },
  { spec: "unsloth/Qwen3-8B-GGUF:Q4_K_M", about: "better answers, reasons first" },
  // A mixture: 3.3 of its 30.5 billion weights are read for a token.
  { spec: "unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF:Q4_K_M", about: "the best of these", shareRead: 3.3 / 30.5 },
];

interface Suggestion {
  readonly spec: string;
  readonly about: string;
  /** Of the weights, for one token; absent: all. */
  readonly shareRead?: number;
}

export interface Offer extends Suggestion {
  readonly bytes: number;
  readonly isPulled: boolean;
  /** Memory bandwidth over the bytes read for a token; null: the bandwidth is not known. */
  readonly tokensPerSecond: number | null;
}

/** What a model may take of this machine, and how fast its weights are read. */
export interface Machine {
  readonly device: string;
  readonly memoryBytes: number;
  readonly bytesPerSecond: number | null;
}

/** Beside the weights: cache, activations, the program. */
const OVERHEAD_BYTES = 512 * 2 ** 20;
const MOST_OFFERS = 6;
const HUB_PATIENCE_MS = 5000;
/** Slower than that nobody reads along. */
const READING_SPEED = 10;

export async function examineMachine(): Promise<Machine> {
  const { openDevice } = await import("../../engine/core/load/devices.js");
  const { KernelDevice } = await import("../../device/cpu/kernel-device.js");
  const device = await openDevice({ device: "auto", threads: 0 });
  try {
    return {
      device: `${device.info.name}: ${device.info.description}`,
      memoryBytes: device.usage()?.memoryBytes ?? availableMemory(),
      bytesPerSecond: device instanceof KernelDevice ? readSpeed(device) : null,
    };
  } finally {
    device.close();
  }
}

/** The best of a few readings of more than caches hold; `pagoda doctor` takes longer over it. */
function readSpeed(device: InstanceType<typeof import("../../device/cpu/kernel-device.js").KernelDevice>): number {
  const data = device.allocTensor(1024, 2 ** 16);
  device.runPeak("update", data); // real pages
  let best = 0;
  for (let run = 0; run < 3; run++) {
    const start = performance.now();
    const read = device.runPeak("memory", data);
    best = Math.max(best, (read * 1000) / (performance.now() - start));
  }
  return best;
}

/** Those that fit, smallest first; of the hub's only where it answers. Empty: nothing is pulled yet, and there is no hub. */
export async function offersFor(machine: Machine, env: Environment): Promise<Offer[]> {
  const pulled = listCache(hubCachePath(env)).filter(({ isComplete }) => isComplete);
  const signal = AbortSignal.timeout(HUB_PATIENCE_MS);
  const ofHub = await Promise.all(
    SUGGESTED.map(async (suggestion) => {
      const own = pulled.find(({ spec }) => spec === suggestion.spec);
      const size = own?.bytes ?? (await sizeOf(suggestion.spec, env, signal).catch(() => null));
      return { ...suggestion, bytes: size, isPulled: own !== undefined };
    }),
  );
  const others = pulled
    .filter(({ spec }) => !SUGGESTED.some((suggestion) => suggestion.spec === spec))
    .map(({ spec, bytes: size }) => ({ spec, about: "", bytes: size, isPulled: true }));
  const fitting = [...others, ...ofHub]
    .filter((offer): offer is typeof offer & { bytes: number } => offer.bytes !== null && offer.bytes > 0)
    .filter((offer) => offer.bytes + OVERHEAD_BYTES <= machine.memoryBytes)
    .map((offer) => ({ ...offer, tokensPerSecond: speedOf(offer, machine) }))
    .sort((a, b) => a.bytes - b.bytes);
  // The smallest and the largest are worth more than those between.
  return fitting.length <= MOST_OFFERS ? fitting : [fitting[0]!, ...fitting.slice(1 - MOST_OFFERS)];
}

function speedOf({ bytes: size, shareRead = 1 }: { bytes: number; shareRead?: number }, machine: Machine) {
  return machine.bytesPerSecond === null ? null : machine.bytesPerSecond / (size * shareRead);
}

/** The largest that is quick enough to read along; the smallest where none is. */
export function recommended(offers: readonly Offer[]): number {
  return Math.max(
    0,
    offers.findLastIndex(({ tokensPerSecond }) => tokensPerSecond === null || tokensPerSecond >= 2 * READING_SPEED),
  );
}

/** The list as people see it, numbered from 1; 0 is the bundled model. */
export function offerText(offers: readonly Offer[], machine: Machine): string {
  const width = Math.max(...offers.map(({ spec }) => spec.length));
  const lines = offers.map(({ spec, bytes: size, tokensPerSecond, isPulled, about }, i) => {
    const speed = tokensPerSecond === null ? "" : `up to ${significant(tokensPerSecond)} tokens/s`;
    const notes = [about, isPulled ? "already here" : ""].filter((note) => note !== "").join("; ");
    return `  ${i + 1}  ${spec.padEnd(width)}  ${bytes(size).padStart(9)}  ${speed.padEnd(20)}  ${notes}`.trimEnd();
  });
  return `No model was named. These fit this machine (${machine.device}; ${bytes(machine.memoryBytes)} of memory free):

${lines.join("\n")}
  0  the bundled demo model: tells children's stories and knows nothing else

`;
}

/** Two digits are as much as such an estimate is worth. */
function significant(value: number): string {
  return String(Number(value.toPrecision(2)));
}

/** The model that the answer names: a spec, null for the bundled one, undefined where the answer is none of the list. */
export function chosenBy(answer: string, offers: readonly Offer[]): string | null | undefined {
  const text = answer.trim();
  const number = text === "" ? recommended(offers) + 1 : /^\d+$/.test(text) ? Number(text) : Number.NaN;
  return number === 0 ? null : offers[number - 1]?.spec;
}
