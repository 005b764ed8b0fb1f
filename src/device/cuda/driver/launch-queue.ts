// Kernel launches of a step, queued and handed to the driver together: as a CUDA graph when the very same list was launched before,
// else one by one.
//
// A launch is a kernel, a grid and one struct of arguments. The structs lie in native memory that is reused from step to step;
// writing a launch is a few stores. Everything that varies between decode steps of one size (tokens, positions, pages, plans) is
// in the staged integers, at addresses that depend on the size alone: so the lists of two such steps are equal word for word, and
// comparing them is all the bookkeeping that graphs need. Nothing else can go stale.

import { allocNative, check } from "./abi.js";
import type { CudaContext } from "./context.js";

const SLOT_BYTES = 512; // the largest argument struct
const SLOT_WORDS = SLOT_BYTES / 4;
const META_WORDS = 8; // function (2), grid (3), block, shared memory, argument words
const CAPACITY = 4096;
const MAX_GRAPHS = 96;
/** CUDA 12.3: from this driver on a graph can hold launches that begin before those ahead have ended. */
const OVERLAPPING_GRAPHS = 12030;
const ATTRIBUTE_AT = 16; // word of the launch attribute behind the CUlaunchConfig
const PROGRAMMATIC_SERIALIZATION = 6;
/** Shorter lists are launched as they are. */
const LEAST_GRAPH = 8;

export interface Graph {
  readonly hash: number;
  readonly words: Int32Array; // every launch's meta and argument words
  readonly numLaunches: number;
  readonly executable: number;
  /** Not destroyed yet. */
  isAlive: boolean;
}

export interface QueueCounts {
  launches: number;
  graphReplays: number;
  graphsMade: number;
  /** Steps that were found by what decides them (graph-cache.ts). */
  knownSteps: number;
}

export class LaunchQueue {
  /** Hold launches back until `flush`, so that they can become a graph; else they go out as they come. */
  isHeld = false;
  /** Launches are written and forgotten: a rehearsal (CudaDevice.reserveSteps). */
  isRehearsal = false;
  readonly counts: QueueCounts = { launches: 0, graphReplays: 0, graphsMade: 0, knownSteps: 0 };
  readonly #context: CudaContext;
  readonly #words: Int32Array; // [CAPACITY, SLOT_WORDS]
  readonly #floats: Float32Array;
  readonly #parameters: number; // [CAPACITY] pointers to the slots
  readonly #config: number; // CUlaunchConfig of the launch being made
  readonly #configWords: Uint32Array;
  readonly #meta = new Int32Array(CAPACITY * META_WORDS);
  #count = 0;
  /** Writes a launch that the next one may do the work of, and then takes away; else it is written as soon as another begins. */
  deferred: (() => void) | null = null;
  /** Called once, before the next launches are handed over. */
  onLaunch: (() => void) | null = null;
  /** Since the start: lists handed over, and the graph that the last of them was. */
  numFlushes = 0;
  lastGraph: Graph | null = null;
  #at = 0; // next argument word of the launch being written
  #hash = 0;
  readonly #seen = new Set<number>();
  readonly #graphs = new Map<number, Graph>(); // by hash, in order of use

  constructor(context: CudaContext) {
    this.#context = context;
    const config = allocNative(256);
    this.#config = config.address;
    this.#configWords = new Uint32Array(config.buffer);
    this.#fillConfig(config.address + ATTRIBUTE_AT * 4);
    const slots = allocNative(CAPACITY * SLOT_BYTES);
    this.#words = new Int32Array(slots.buffer);
    this.#floats = new Float32Array(slots.buffer);
    const pointers = allocNative(CAPACITY * 8);
    this.#parameters = pointers.address;
    new BigUint64Array(pointers.buffer).set(
      BigUint64Array.from({ length: CAPACITY }, (_, i) => BigInt(slots.address + i * SLOT_BYTES)),
    );
  }

  /** Begins a launch; its arguments follow in the order of the kernel's struct, then `end`. */
  begin(kernel: number, gridX: number, gridY: number, gridZ: number, block: number, sharedBytes: number): this {
    this.settle();
    if (this.#count === CAPACITY) this.flush();
    const meta = this.#meta;
    const at = this.#count * META_WORDS;
    meta[at] = kernel | 0;
    meta[at + 1] = (kernel / 0x1_0000_0000) | 0;
    meta[at + 2] = gridX;
    meta[at + 3] = gridY;
    meta[at + 4] = gridZ;
    meta[at + 5] = block;
    meta[at + 6] = sharedBytes;
    this.#at = this.#count * SLOT_WORDS;
    return this;
  }

  /** An address or a 64-bit integer, aligned to 8 bytes. */
  long(value: number): this {
    if ((this.#at & 1) !== 0) this.#words[this.#at++] = 0;
    this.#words[this.#at++] = value | 0;
    this.#words[this.#at++] = Math.floor(value / 0x1_0000_0000) | 0;
    return this;
  }

  int(value: number): this {
    this.#words[this.#at++] = value;
    return this;
  }

  float(value: number): this {
    this.#floats[this.#at++] = value;
    return this;
  }

  end(): void {
    if (this.isRehearsal) return;
    this.#meta[this.#count * META_WORDS + 7] = this.#at - this.#count * SLOT_WORDS;
    this.#count++;
    if (!this.isHeld) this.flush();
  }

  /** What all launches share: blocks of one dimension, the stream, and leave to begin before the launch ahead has ended. */
  #fillConfig(attribute: number): void {
    const { stream, facts } = this.#context;
    const words = this.#configWords;
    words[4] = words[5] = 1;
    words[8] = stream >>> 0;
    words[9] = Math.floor(stream / 0x1_0000_0000);
    words[10] = attribute >>> 0;
    words[11] = Math.floor(attribute / 0x1_0000_0000);
    const canOverlap = facts.canOverlap && facts.driverVersion >= OVERLAPPING_GRAPHS;
    words[12] = canOverlap && process.env.PAGODA_CUDA_SERIAL === undefined ? 1 : 0;
    words[ATTRIBUTE_AT] = PROGRAMMATIC_SERIALIZATION;
    words[ATTRIBUTE_AT + 2] = 1;
  }

  get isEmpty(): boolean {
    return this.#count === 0 && this.deferred === null;
  }

  /** Writes what was deferred. */
  settle(): void {
    const { deferred } = this;
    if (deferred === null) return;
    this.deferred = null;
    deferred();
  }

  /** Hands everything queued to the driver. */
  flush(): void {
    this.settle();
    if (this.#count === 0) return;
    this.#announce();
    this.counts.launches += this.#count;
    this.numFlushes++;
    this.lastGraph = null;
    if (!this.isHeld || this.#count < LEAST_GRAPH) this.#launchAll();
    else this.#launchGraph();
    this.#count = 0;
  }

  /** Launches a graph of lastGraph again. */
  replay(graph: Graph): void {
    const { driver, stream } = this.#context;
    this.#announce();
    check(driver, driver.graphLaunch(graph.executable, stream), "graphLaunch");
    this.counts.launches += graph.numLaunches;
    this.#used(graph);
  }

  /** Whether what is queued is what the graph launches. */
  holds({ words }: Graph): boolean {
    return this.#isSame(words);
  }

  #announce(): void {
    this.onLaunch?.();
    this.onLaunch = null;
  }

  #used(graph: Graph): void {
    this.counts.graphReplays++;
    this.lastGraph = graph;
    this.#graphs.delete(graph.hash);
    this.#graphs.set(graph.hash, graph);
  }

  close(): void {
    for (const { executable } of this.#graphs.values()) this.#context.driver.graphExecDestroy(executable);
    this.#graphs.clear();
  }

  #launchAll(): void {
    const { driver } = this.#context;
    const meta = this.#meta;
    for (let i = 0; i < this.#count; i++) {
      const at = i * META_WORDS;
      const kernel = (meta[at]! >>> 0) + (meta[at + 1]! >>> 0) * 0x1_0000_0000;
      const words = this.#configWords;
      words[0] = meta[at + 2]!;
      words[1] = meta[at + 3]!;
      words[2] = meta[at + 4]!;
      words[3] = meta[at + 5]!;
      words[6] = meta[at + 6]!;
      const status = driver.launch(this.#config, kernel, this.#parameters + i * 8, 0);
      if (status !== 0) {
        this.#count = 0;
        check(driver, status, "launch", kernel, ...meta.subarray(at + 2, at + 7));
      }
    }
  }

  /** A list seen for the second time is captured; from then on it is replayed. */
  #launchGraph(): void {
    const { driver, stream } = this.#context;
    this.#hashWords();
    const hash = this.#hash;
    const known = this.#graphs.get(hash);
    if (known !== undefined && this.#isSame(known.words)) {
      check(driver, driver.graphLaunch(known.executable, stream), "graphLaunch");
      this.#used(known);
      return;
    }
    if (!this.#seen.has(hash)) {
      if (this.#seen.size > 65536) this.#seen.clear();
      this.#seen.add(hash);
      this.#launchAll();
      return;
    }
    if (known !== undefined) this.#drop(known);
    const graph = this.#capture();
    this.#graphs.set(hash, graph);
    this.lastGraph = graph;
    if (this.#graphs.size > MAX_GRAPHS) {
      this.#drop(this.#graphs.values().next().value!);
    }
    check(driver, driver.graphLaunch(graph.executable, stream), "graphLaunch");
  }

  #capture(): Graph {
    const { driver, stream } = this.#context;
    const out = new BigUint64Array(1);
    check(driver, driver.captureBegin(stream, 2), "captureBegin"); // relaxed: other threads may use the driver meanwhile
    try {
      this.#launchAll();
    } catch (error) {
      driver.captureEnd(stream, out); // it fails too; what went wrong is the launch
      throw error;
    }
    check(driver, driver.captureEnd(stream, out), "captureEnd");
    const graph = Number(out[0]);
    check(driver, driver.graphInstantiate(out, graph, 0), "graphInstantiate");
    driver.graphDestroy(graph);
    this.counts.graphsMade++;
    const executable = Number(out[0]);
    return { hash: this.#hash, words: this.#copyWords(), numLaunches: this.#count, executable, isAlive: true };
  }

  #drop(graph: Graph): void {
    graph.isAlive = false;
    this.#graphs.delete(graph.hash);
    this.#context.driver.graphExecDestroy(graph.executable);
  }

  #hashWords(): void {
    let hash = this.#count;
    const meta = this.#meta;
    const words = this.#words;
    for (let i = 0; i < this.#count; i++) {
      const at = i * META_WORDS;
      for (let j = 0; j < META_WORDS; j++) hash = Math.imul(hash ^ meta[at + j]!, 0x9e3779b1) ^ (hash >>> 15);
      const end = i * SLOT_WORDS + meta[at + 7]!;
      for (let j = i * SLOT_WORDS; j < end; j++) hash = Math.imul(hash ^ words[j]!, 0x85ebca6b) ^ (hash >>> 13);
    }
    this.#hash = hash;
  }

  #copyWords(): Int32Array {
    let size = 0;
    for (let i = 0; i < this.#count; i++) size += META_WORDS + this.#meta[i * META_WORDS + 7]!;
    const copy = new Int32Array(size);
    let to = 0;
    for (let i = 0; i < this.#count; i++) {
      for (let j = 0; j < META_WORDS; j++) copy[to++] = this.#meta[i * META_WORDS + j]!;
      for (let j = 0; j < this.#meta[i * META_WORDS + 7]!; j++) copy[to++] = this.#words[i * SLOT_WORDS + j]!;
    }
    return copy;
  }

  #isSame(copy: Int32Array): boolean {
    const meta = this.#meta;
    const words = this.#words;
    let from = 0;
    for (let i = 0; i < this.#count; i++) {
      for (let j = 0; j < META_WORDS; j++) if (copy[from++] !== meta[i * META_WORDS + j]) return false;
      const size = meta[i * META_WORDS + 7]!;
      for (let j = 0; j < size; j++) if (copy[from++] !== words[i * SLOT_WORDS + j]) return false;
    }
    return from === copy.length;
  }
}
