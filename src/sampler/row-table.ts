// The requests that have a row on the device (Device.reserveRows; its layout: core/draws.ts). A request takes room for its rule and the tokens that penalties
// are about when it first draws, and keeps it for as long as its flights follow each other. Nobody gives room back: what eight flights have
// not used, its request being over, preempted or waiting, is taken by who needs it, and a request that lost its row writes it once more.
// Where there is none to take, a draw brings its row and all its tokens in every step.

import { FLAG, flagsOf, rowWordsOf } from "../core/draws.js";
import type { SamplingParams } from "../core/sampling.js";

/** Words of one piece of room. */
const PIECE = 256;
/** 16 MiB: 256 requests of 16,384 tokens that are penalised. */
const MOST_PIECES = 16_384;
/** Flights after which a row that was not used can be taken: one that is not in every flight keeps its own. */
const IDLE_FLIGHTS = 8;

/** The row of one request: what it is sampled by, and what of it is on the device. */
export class KeptRow {
  readonly words: Int32Array;
  /** What each of its draws takes of it. */
  readonly flags: number;
  /** Where it begins; -1: nowhere. */
  at = -1;
  /** Tokens for penalties that are there once the draws written so far are sampled, and that were there before the last of them. */
  count = 0;
  numBefore = 0;
  /** Of the table: its pieces, and the last flight that used it. */
  numPieces = 0;
  lastUsed = 0;

  constructor(words: Int32Array, flags: number) {
    this.words = words;
    this.flags = flags;
  }

  static of(sampling: SamplingParams, promptLen: number, stopIds: Int32Array): KeptRow {
    return new KeptRow(rowWordsOf(sampling, promptLen, stopIds), flagsOf(sampling));
  }

  /** Of another sample of the call. */
  fork(): KeptRow {
    return new KeptRow(this.words, this.flags);
  }
}

export class RowTable {
  /** Words on the device. */
  readonly numWords: number;
  readonly #owners: (KeptRow | null)[]; // [pieces]
  #flight = IDLE_FLIGHTS;
  /** Where the search for room goes on. */
  #hand = 0;
  /** This flight has found no room of so many pieces. */
  #tooMany = Number.POSITIVE_INFINITY;

  constructor(numPieces: number) {
    this.numWords = numPieces * PIECE;
    this.#owners = Array.from({ length: numPieces }, () => null);
  }

  /** Room for so many requests of at most `maxTokens` each, within limits. */
  static for(maxRequests: number, maxTokens: number): RowTable {
    return new RowTable(Math.min(MOST_PIECES, maxRequests * Math.ceil(growing(PIECE / 4 + maxTokens) / PIECE)));
  }

  beginFlight(): void {
    this.#flight++;
    this.#tooMany = Number.POSITIVE_INFINITY;
  }

  /** The row is used, with so many tokens behind its words. Returns true where it is new in its place: it is to be written. */
  take(row: KeptRow, numTokens: number): boolean {
    const needed = row.words.length + numTokens;
    row.lastUsed = this.#flight;
    if (row.at >= 0 && needed <= row.numPieces * PIECE) return false;
    if (row.at >= 0) this.#evict(row);
    const numPieces = Math.ceil(((row.flags & FLAG.penalties) === 0 ? needed : growing(needed)) / PIECE);
    const first = this.#findIdle(numPieces);
    if (first < 0) return false;
    for (let i = first; i < first + numPieces; i++) {
      const owner = this.#owners[i]!;
      if (owner !== null) this.#evict(owner);
    }
    this.#owners.fill(row, first, first + numPieces);
    row.at = first * PIECE;
    row.numPieces = numPieces;
    return true;
  }

  #evict(row: KeptRow): void {
    const first = row.at / PIECE;
    this.#owners.fill(null, first, first + row.numPieces);
    row.at = -1;
    row.count = 0;
  }

  /** The first of so many neighbours that nobody uses; -1: there are none. */
  #findIdle(numPieces: number): number {
    if (numPieces >= Math.min(this.#tooMany, this.#owners.length + 1)) return -1;
    const owners = this.#owners;
    let count = 0;
    // Once round, and the pieces before the hand that go on behind it.
    for (let i = this.#hand, left = owners.length + numPieces; left > 0; i++, left--) {
      if (i === owners.length) i = count = 0;
      const owner = owners[i]!;
      count = owner === null || this.#flight - owner.lastUsed >= IDLE_FLIGHTS ? count + 1 : 0;
      if (count < numPieces) continue;
      this.#hand = (i + 1) % owners.length;
      return i + 1 - numPieces;
    }
    this.#tooMany = numPieces;
    return -1;
  }
}

/** With room to grow: a row that outgrows its room is written again with all its tokens, and that is seldom. */
function growing(words: number): number {
  return Math.ceil(1.5 * words) + 1;
}
