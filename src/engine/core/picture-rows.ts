// Rows of pictures: the model's tower makes them when a chunk needs them, between steps and for a while at a time, and they are kept by what
// they are made of. The scheduler asks how far a chunk can go; what lacks is made next.

import { errorFor } from "../../core/errors.js";
import type { GivenMedium, MediumSpan, PictureFrame } from "../../core/media.js";
import type { MediaSupply, Request } from "../../core/request.js";
import { type Eyes, tokenGrid } from "../../models/vision/vision-model.js";
import type { PictureStats } from "../types.js";
import type { MediumRows, RowSource } from "./media-rows.js";

export interface PictureRowsOptions {
  /** null: the model has none. */
  readonly eyes: Eyes | null;
  /** Of rows that nobody needs at the moment. */
  readonly maxBytes: number;
  /** How long a tower runs before steps have their turn. */
  readonly turnMs: number;
  readonly clock: () => number;
}

/** Rows that are kept, or on their way. */
interface Entry {
  readonly key: string;
  frame: PictureFrame | null;
  rows: Float32Array | null; // [numRows, tokens, hidden]
  /** Requests that have not computed all of it. */
  readonly needed: Set<PictureSupply>;
}

export class PictureRows {
  readonly #options: PictureRowsOptions;
  /** The least recently used first. */
  readonly #entries = new Map<string, Entry>();
  readonly #queue: Entry[] = [];
  readonly #failed: { readonly request: Request; readonly error: unknown }[] = [];
  #isBusy = false;
  #until = 0;
  #resume: (() => void) | null = null;
  #bytes = 0;
  #numEncoded = 0;
  #numFound = 0;

  constructor(options: PictureRowsOptions) {
    this.#options = options;
  }

  /** Rows of a token: its embedding, and what is added to it after each of the first layers. */
  get numRows(): number {
    return this.#options.eyes?.spec.numRows ?? 1;
  }

  /** A tower can go on at once. */
  get canMove(): boolean {
    return this.#resume !== null || (!this.#isBusy && this.#queue.length > 0);
  }

  get isBusy(): boolean {
    return this.#isBusy || this.#queue.length > 0;
  }

  /** Lets a tower run until the turn is over: at least a layer of it. */
  turn(): void {
    this.#until = this.#options.clock() + this.#options.turnMs;
    const resume = this.#resume;
    this.#resume = null;
    if (resume !== null) resume();
    else if (!this.#isBusy) this.#next();
  }

  /** Requests whose pictures could not be encoded since the last call. */
  takeFailed(): readonly { readonly request: Request; readonly error: unknown }[] {
    return this.#failed.length === 0 ? this.#failed : this.#failed.splice(0);
  }

  stats(): PictureStats {
    return { encoded: this.#numEncoded, reused: this.#numFound, waiting: this.#queue.length, bytes: this.#bytes };
  }

  /**
   * The media as the batch takes them; those of pictures have their rows once they are made. `salt`: who shares prefixes shares rows, for whether
   * somebody has asked about a picture could be told from the time that it takes.
   */
  open(media: readonly GivenMedium[], salt: string): MediumRows[] {
    const sources = new Map<string, PictureSource>();
    return media.map((medium) => {
      const { start, end } = medium;
      if ("rows" in medium) return { ...medium, source: { rows: medium.rows, count: end - start }, first: 0 };
      const { id, frame } = medium.picture;
      const key = `${id.join()} ${salt}`;
      const source = sources.get(key) ?? new PictureSource(this, key, frame, this.#tokensOf(frame));
      sources.set(key, source);
      const { first } = medium;
      if (first < 0 || first + end - start > source.count) {
        const expected = `a part of the picture's ${source.count} tokens`;
        throw errorFor("invalid_value", { param: "media", value: `${first} to ${first + end - start}`, expected });
      }
      return { ...medium, source, first };
    });
  }

  #tokensOf(frame: PictureFrame): number {
    const { eyes } = this.#options;
    if (eyes === null) throw new Error("the model has no eyes");
    const { rows, columns } = tokenGrid(eyes.spec, frame);
    return rows * columns;
  }

  /** What tells the scheduler how far a request's chunks can go; null: all rows are there. */
  supplyFor(request: Request, media: readonly MediumRows[]): PictureSupply | null {
    return media.some(({ source }) => source instanceof PictureSource) ? new PictureSupply(this, request, media) : null;
  }

  rowsOf(key: string): Float32Array | null {
    return this.#entries.get(key)?.rows ?? null;
  }

  /** The request is about to compute some of it: it stays until the request has computed all, and is made if it is not there. */
  need({ key, frame }: PictureSource, supply: PictureSupply): Float32Array | null {
    let entry = this.#entries.get(key);
    if (entry?.needed.has(supply)) return entry.rows;
    if (entry === undefined) {
      entry = { key, frame, rows: null, needed: new Set() };
      this.#queue.push(entry);
    } else {
      this.#entries.delete(key); // it is the most recently used now
      if (entry.rows !== null) this.#numFound++;
    }
    this.#entries.set(key, entry);
    entry.needed.add(supply);
    return entry.rows;
  }

  readonly #pause = (): Promise<void> | null => {
    if (this.#options.clock() < this.#until) return null;
    return new Promise((resolve) => {
      this.#resume = resolve;
    });
  };

  /** The next frames, as many as go through the tower together. */
  #next(): void {
    const eyes = this.#options.eyes!;
    const group: Entry[] = [];
    for (let entry = this.#queue[0]; entry !== undefined; entry = this.#queue[0]) {
      dropDone(entry);
      if (entry.needed.size === 0)
        this.#entries.delete(entry.key); // whoever wanted it has left
      else if (this.#isEncodable(entry)) {
        if (group.length > 0 && !eyes.fits([...group, entry].map(({ frame }) => frame!))) break;
        group.push(entry);
      }
      this.#queue.shift();
    }
    if (group.length > 0) void this.#encode(group);
  }

  /** A frame that is refused takes nobody else's with it. */
  #isEncodable(entry: Entry): boolean {
    try {
      this.#options.eyes!.check(entry.frame!);
      return true;
    } catch (error) {
      this.#fail(entry, error);
      return false;
    }
  }

  async #encode(group: readonly Entry[]): Promise<void> {
    this.#isBusy = true;
    try {
      const encoded = await this.#options.eyes!.encode(
        group.map(({ frame }) => frame!),
        this.#pause,
      );
      for (const [i, entry] of group.entries()) {
        const { rows } = encoded[i]!;
        entry.rows = rows;
        this.#numEncoded++;
        this.#bytes += rows.byteLength;
      }
      this.#evict();
    } catch (error) {
      for (const entry of group) this.#fail(entry, error);
    } finally {
      for (const entry of group) entry.frame = null;
      this.#isBusy = false;
      if (this.#options.clock() < this.#until) this.#next();
    }
  }

  #fail(entry: Entry, error: unknown): void {
    this.#entries.delete(entry.key);
    for (const { request } of entry.needed) this.#failed.push({ request, error });
  }

  #evict(): void {
    for (const entry of this.#entries.values()) {
      if (this.#bytes <= this.#options.maxBytes) return;
      dropDone(entry);
      if (entry.rows === null || entry.needed.size > 0) continue;
      this.#entries.delete(entry.key);
      this.#bytes -= entry.rows.byteLength;
    }
  }
}

function dropDone({ key, needed }: Entry): void {
  for (const supply of needed) if (supply.isDoneWith(key)) needed.delete(supply);
}

/** The rows of one picture of a request. */
class PictureSource implements RowSource {
  readonly key: string;
  readonly frame: PictureFrame;
  readonly count: number;
  readonly #room: PictureRows;

  constructor(room: PictureRows, key: string, frame: PictureFrame, count: number) {
    this.#room = room;
    this.key = key;
    this.frame = frame;
    this.count = count;
  }

  get rows(): Float32Array | null {
    return this.#room.rowsOf(this.key);
  }
}

/** What one request needs of pictures, and when. */
export class PictureSupply implements MediaSupply {
  readonly request: Request;
  readonly #room: PictureRows;
  readonly #spans: readonly (MediumSpan & { readonly source: PictureSource })[];

  constructor(room: PictureRows, request: Request, media: readonly MediumRows[]) {
    this.request = request;
    this.#room = room;
    this.#spans = media.filter(
      (medium): medium is MediumRows & { readonly source: PictureSource } => medium.source instanceof PictureSource,
    );
  }

  endFor(start: number, end: number): number {
    let ready = end;
    for (let i = 0; i < this.#spans.length; i++) {
      const span = this.#spans[i]!;
      if (span.end <= start || span.start >= end) continue;
      if (this.#room.need(span.source, this) === null) ready = Math.min(ready, Math.max(span.start, start));
    }
    return ready;
  }

  /** The request has ended, or computed all of the picture's tokens. */
  isDoneWith(key: string): boolean {
    const { state, numComputed } = this.request;
    return state === "finished" || !this.#spans.some(({ source, end }) => source.key === key && numComputed < end);
  }
}
