// Who has room in the history: the device's array of tokens that penalties are about (Device.reserveHistory). A request takes as much as
// its tokens need and keeps it for as long as its flights follow each other. Nobody gives room back: what eight flights have not used,
// its request being over, preempted or waiting, is taken by who needs it, and a request that lost its room brings all its tokens once more.
// Where there is none to take, a row brings all its tokens in every step and leaves none.

/** Tokens of one piece of room. */
const PIECE = 1024;
/** 16 MiB: 256 requests of 16,384 tokens. */
const MOST_PIECES = 4096;
/** Flights after which room that was not used can be taken: a row that is not in every flight keeps its own. */
const IDLE_FLIGHTS = 8;

/** The tokens of one request that the device has. */
export class HeldTokens {
  /** Where they begin in the history; -1: nowhere. */
  at = -1;
  capacity = 0;
  /** Whose the room is: nobody else has this number. */
  ticket = 0;
  /** Tokens that are there once the rows written so far are sampled, and that were there before the last of them. */
  count = 0;
  numBefore = 0;
}

export class History {
  readonly numTokens: number;
  readonly #tickets: Float64Array; // [pieces] whose it is
  readonly #lastUsed: Float64Array; // [pieces] the flight
  #flight = IDLE_FLIGHTS;
  #lastTicket = 0;
  /** This flight has found no room of so many pieces. */
  #tooMany = Number.POSITIVE_INFINITY;

  constructor(numPieces: number) {
    this.numTokens = numPieces * PIECE;
    this.#tickets = new Float64Array(numPieces);
    this.#lastUsed = new Float64Array(numPieces);
  }

  /** Room for so many requests of at most `maxTokens` each, within limits. */
  static for(maxRequests: number, maxTokens: number): History {
    return new History(Math.min(MOST_PIECES, maxRequests * Math.ceil(roomFor(maxTokens) / PIECE)));
  }

  beginFlight(): void {
    this.#flight++;
    this.#tooMany = Number.POSITIVE_INFINITY;
  }

  /** Room for `needed` tokens, with those that are held; where it moves, or where there is none, none are. */
  take(held: HeldTokens, needed: number): void {
    const first = held.at / PIECE;
    if (held.at < 0 || this.#tickets[first] !== held.ticket || needed > held.capacity) this.#move(held, needed);
    if (held.at < 0) return;
    for (let i = held.at / PIECE, end = i + held.capacity / PIECE; i < end; i++) this.#lastUsed[i] = this.#flight;
  }

  #move(held: HeldTokens, needed: number): void {
    held.count = 0;
    held.at = -1;
    const numPieces = Math.ceil(roomFor(needed) / PIECE);
    const first = this.#findIdle(numPieces);
    if (first < 0) return;
    this.#evict(first, first + numPieces);
    held.at = first * PIECE;
    held.capacity = numPieces * PIECE;
    held.ticket = ++this.#lastTicket;
    this.#tickets.fill(held.ticket, first, first + numPieces);
  }

  /** The first of so many neighbours that nobody uses; -1: there are none. */
  #findIdle(numPieces: number): number {
    if (numPieces >= this.#tooMany) return -1;
    let count = 0;
    for (let i = 0; i < this.#lastUsed.length; i++) {
      count = this.#flight - this.#lastUsed[i]! >= IDLE_FLIGHTS ? count + 1 : 0;
      if (count === numPieces) return i + 1 - numPieces;
    }
    this.#tooMany = numPieces;
    return -1;
  }

  /** Who loses one of its pieces has lost them all. */
  #evict(first: number, end: number): void {
    const tickets = this.#tickets;
    for (let i = first - 1; i >= 0 && tickets[i] === tickets[first]; i--) tickets[i] = 0;
    for (let i = end; i < tickets.length && tickets[i] === tickets[end - 1]; i++) tickets[i] = 0;
  }
}

/** With room to grow: a request that outgrows its room brings all its tokens again, and does so seldom. */
function roomFor(numTokens: number): number {
  return Math.ceil(1.5 * numTokens) + 1;
}
