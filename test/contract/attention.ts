// Pages: rotary and append, attention through the page table, page copies. Each case appends a ragged batch in two steps (a cached
// prefix, then new tokens), so that attention reads pages it did not just write.

import type { AttentionPlanner } from "../../src/attention/planner.js";
import { Batch } from "../../src/core/batch.js";
import type { Device, KvDtype, KvPool, RotaryTable, StagedBatch, Tensor } from "../../src/device/device.js";
import type { Tolerance } from "./device.js";
import { assertSameBits, type Duel, readAll } from "./duel.js";
import { numbers, uniform } from "./inputs.js";

interface Shape {
  readonly numKvHeads: number;
  readonly groupSize: number;
  readonly keyDim: number;
  readonly valueDim: number;
  readonly pageSize: number;
  readonly dtype: KvDtype;
  readonly window: number;
  /** The new tokens of a step see each other, later ones too. */
  readonly seesAhead: boolean;
  /** How far; left out: as far as the window reaches back. */
  readonly mostAhead?: number;
  readonly softcap: number;
  readonly hasSinks: boolean;
  readonly hasRotary: boolean;
  readonly isLatent: boolean;
  /** Cached tokens and new tokens of each sequence. */
  readonly sequences: readonly (readonly [number, number])[];
}

const PLAIN: Shape = {
  numKvHeads: 2,
  groupSize: 3,
  keyDim: 16,
  valueDim: 16,
  pageSize: 8,
  dtype: "f32",
  window: 0,
  seesAhead: false,
  softcap: 0,
  hasSinks: false,
  hasRotary: true,
  isLatent: false,
  sequences: [
    [0, 1],
    [0, 33],
    [70, 1],
    [16, 20],
    [5, 3],
    [129, 2],
  ],
};

const LAYERS = 2;
const LAYER = 1;
const MAX_TOKENS = 256;

export function attentionContract(duel: Duel, tolerance: Tolerance): void {
  const cases: Record<string, Partial<Shape>> = {
    plain: {},
    "without rotary": { hasRotary: false },
    "one head for all": { numKvHeads: 1, groupSize: 7 },
    "no groups": { numKvHeads: 3, groupSize: 1 },
    window: { window: 24 },
    "window of one": { window: 1 },
    "window across pages": { window: 67, pageSize: 16 },
    "sees ahead": { seesAhead: true },
    "sees ahead, window": { seesAhead: true, window: 9 },
    "sees ahead, further than back": { seesAhead: true, window: 9, mostAhead: 2 ** 30 },
    "must not see ahead": { seesAhead: true, mostAhead: 1 },
    "sees ahead, window across pages": { seesAhead: true, window: 67, pageSize: 16, groupSize: 1 },
    softcap: { softcap: 5 },
    sinks: { hasSinks: true },
    "sinks, softcap and window": { hasSinks: true, softcap: 3, window: 9 },
    "values narrower than keys": { keyDim: 40, valueDim: 20 },
    "values wider than keys": { keyDim: 16, valueDim: 48 },
    latent: { isLatent: true, numKvHeads: 1, groupSize: 12, keyDim: 40, valueDim: 32 },
    "latent, 576 and 512": { isLatent: true, numKvHeads: 1, groupSize: 16, keyDim: 576, valueDim: 512 },
    "192 and 128": { keyDim: 192, valueDim: 128, numKvHeads: 1 },
  };
  for (const dim of [16, 48, 64, 80, 96, 128, 256]) cases[`heads of ${dim}`] = { keyDim: dim, valueDim: dim };
  for (const pageSize of [1, 8, 16, 32]) cases[`pages of ${pageSize}`] = { pageSize };
  for (const dtype of ["f16", "bf16", "i8", "fp8"] as const) {
    cases[dtype] = { dtype };
    cases[`${dtype}, heads of 80, window`] = { dtype, keyDim: 80, valueDim: 80, window: 40 };
    for (const dim of [80, 96])
      cases[`${dtype}, heads of ${dim}, all see all`] = {
        ...{ dtype, keyDim: dim, valueDim: dim, groupSize: 1, pageSize: 16, seesAhead: true },
        sequences: [
          [0, 150],
          [0, 40],
        ],
      };
    cases[`${dtype}, sees ahead, window`] = { dtype, seesAhead: true, window: 21 };
    cases[`${dtype}, values narrower than keys`] = { dtype, keyDim: 40, valueDim: 20, pageSize: 4 };
    for (const dim of [64, 128]) {
      cases[`${dtype}, heads of ${dim} in pages of 16`] = {
        dtype,
        keyDim: dim,
        valueDim: dim,
        pageSize: 16,
        groupSize: 4,
      };
    }
    if (dtype === "f16" || dtype === "bf16") {
      const latent = { dtype, isLatent: true, numKvHeads: 1, groupSize: 16, keyDim: 576, valueDim: 512 };
      cases[`${dtype}, latent, 576 and 512`] = latent;
      cases[`${dtype}, latent, 576 and 512, window across pages`] = {
        ...latent,
        window: 67,
        pageSize: 16,
        groupSize: 5,
      };
    }
    cases[`${dtype}, latent`] = { dtype, isLatent: true, numKvHeads: 1, groupSize: 6, keyDim: 40, valueDim: 32 };
  }

  for (const [name, changes] of Object.entries(cases)) {
    const shape = { ...PLAIN, ...changes };
    duel.test("attention", name, async () => {
      await duel.compare(tolerance.kv[shape.dtype], (d) => new PagedCase(d, shape).run());
    });
  }

  for (const dtype of ["f32", "f16", "bf16", "i8", "fp8"] as const) {
    for (const [window, dim] of [
      [0, 16],
      [24, 16],
      [40, 64],
      [0, 128],
    ] as const) {
      if (dim > 16 && (dtype === "f32" || dtype === "i8")) continue; // sizes with kernels of their own
      const shape = { ...PLAIN, dtype, window, keyDim: dim, valueDim: dim, hasSinks: true };
      duel.test(
        "attention",
        `${dtype}, heads of ${dim}, window ${window}: no chunking or neighbour changes a bit`,
        async () => {
          const whole = await readAll(duel.device, await new PagedCase(duel.device, shape).run());
          for (const chunk of [1, 8, 13, 48]) {
            const chunked = await readAll(duel.device, await new PagedCase(duel.device, shape).run(chunk));
            assertSameBits(chunked, whole, `in chunks of ${chunk}`);
          }
        },
      );
    }
  }

  duel.test("attention", "a row of many parts: not being split changes no bit", async () => {
    const shape = {
      ...PLAIN,
      dtype: "f16",
      keyDim: 64,
      valueDim: 64,
      pageSize: 64,
      numKvHeads: 1,
      groupSize: 6,
    } as const;
    const long = { ...shape, hasRotary: false, sequences: [[6500, 3]] } as const;
    const short = { ...shape, sequences: [[700, 3]] } as const;
    for (const each of [long, short]) {
      const whole = await readAll(duel.device, await new PagedCase(duel.device, each).run());
      assertSameBits(
        await readAll(duel.device, await new PagedCase(duel.device, each).run(1)),
        whole,
        "token by token",
      );
    }
  });

  for (const [dtype, dim, fresh, window] of [
    ["bf16", 128, 30, 0],
    ["f16", 64, 30, 900],
    ["fp8", 128, 30, 0],
    ["bf16", 256, 16, 0],
  ] as const) {
    const name = `${dtype}, heads of ${dim}: a few tokens on a long context, split along it: no chunking changes a bit`;
    duel.test("attention", name, async () => {
      const pages = { pageSize: 16, numKvHeads: 1, groupSize: 4, keyDim: dim, valueDim: dim };
      const shape = { ...PLAIN, ...pages, dtype, window, hasRotary: false, sequences: [[1300, fresh]] } as const;
      const whole = await readAll(duel.device, await new PagedCase(duel.device, shape).run());
      for (const chunk of [1, 13]) {
        const chunked = await readAll(duel.device, await new PagedCase(duel.device, shape).run(chunk));
        assertSameBits(chunked, whole, `in chunks of ${chunk}`);
      }
    });
  }

  duel.test("attention", "latent of 576 and 512: no chunking or neighbour changes a bit", async () => {
    const latent = { isLatent: true, numKvHeads: 1, groupSize: 16, keyDim: 576, valueDim: 512 };
    const sequences = [
      [0, 1],
      [300, 4],
      [0, 21],
    ] as const;
    const shape = { ...PLAIN, ...latent, dtype: "bf16", hasRotary: false, sequences } as const;
    const whole = await readAll(duel.device, await new PagedCase(duel.device, shape).run());
    for (const chunk of [1, 13]) {
      const chunked = await readAll(duel.device, await new PagedCase(duel.device, shape).run(chunk));
      assertSameBits(chunked, whole, `in chunks of ${chunk}`);
    }
  });

  duel.test("copyPage", "the copy holds what the page held, in all layers", async () => {
    for (const dtype of ["f32", "f16", "bf16", "i8", "fp8"] as const) {
      await duel.compare(tolerance.kv[dtype], (d) => {
        const paged = new PagedCase(d, { ...PLAIN, dtype });
        return paged.run(MAX_TOKENS, "copy");
      });
    }
  });

  for (const [op, move, how] of [
    ["writePages", "transfer", "read and written elsewhere"],
    ["swapOut", "tier", "in host memory meanwhile"],
  ] as const) {
    duel.test(op, `pages that were ${how} give the same bits`, async () => {
      if (duel.device[op] === undefined) return; // its pools are host memory
      if (op === "writePages" && !duel.device.info.canReadPages) return; // its pages never leave it
      for (const dtype of ["f32", "f16", "bf16", "i8", "fp8"] as const) {
        const shape = { ...PLAIN, dtype };
        const stayed = await readAll(duel.device, await new PagedCase(duel.device, shape).run());
        const moved = await readAll(duel.device, await new PagedCase(duel.device, shape).run(MAX_TOKENS, move));
        assertSameBits(moved, stayed, dtype);
      }
    });
  }
}

/** The sequences of the case on one device. q, k and v of a token depend on its sequence and position alone. */
class PagedCase {
  readonly #device: Device;
  readonly #shape: Shape;
  readonly #pool: KvPool;
  readonly #rotary: RotaryTable | null;
  readonly #planner: AttentionPlanner;
  readonly #sinks: Tensor | null;
  readonly #pages: Int32Array[] = [];
  readonly #numPages: number;

  constructor(device: Device, shape: Shape) {
    const { keyDim, valueDim, numKvHeads, groupSize, pageSize, dtype, window, isLatent } = shape;
    const numHeads = numKvHeads * groupSize;
    this.#device = device;
    this.#shape = shape;
    let next = 1;
    for (const [cached, fresh] of shape.sequences) {
      const count = Math.ceil((cached + fresh) / pageSize);
      this.#pages.push(Int32Array.from({ length: count }, (_, i) => next + count - 1 - i));
      next += count;
    }
    this.#numPages = next;
    const spec = { numPages: 2 * next, pageSize, numLayers: LAYERS, numKvHeads, keyDim, valueDim, isLatent, dtype };
    this.#pool = device.allocKvPool(spec);
    const half = keyDim / 2;
    const invFreq = Float32Array.from({ length: half }, (_, i) => 10_000 ** (-i / half));
    this.#rotary = shape.hasRotary ? device.createRotary({ invFreq, scale: 1, interleaved: false }, MAX_TOKENS) : null;
    this.#sinks = shape.hasSinks ? device.loadTensor(numbers(numHeads, 40), 1, numHeads) : null;
    this.#planner = device.createPlanner({
      groupSize,
      numKvHeads,
      headDim: keyDim,
      window,
      ...(shape.mostAhead === undefined ? {} : { mostAhead: shape.mostAhead }),
      split: "fixed",
      kvDtype: dtype,
    });
  }

  /** The new tokens' outputs [sum of new tokens, H*Dv], computed in chunks of at most `chunk`; `move`: from copies of the pages. */
  async run(chunk = MAX_TOKENS, move: "copy" | "transfer" | "tier" | null = null): Promise<Tensor> {
    const d = this.#device;
    const { numKvHeads, groupSize, valueDim, sequences } = this.#shape;
    const width = numKvHeads * groupSize * valueDim;
    for (let s = 0; s < sequences.length; s++) {
      for (let start = 0; start < sequences[s]![0]; start += 64) {
        this.#append([[s, start, Math.min(start + 64, sequences[s]![0])]]);
      }
    }
    if (move !== null) await this.#move(move);
    const results: Float32Array[] = sequences.map(([, fresh]) => new Float32Array(fresh * width));
    const done = sequences.map(() => 0);
    while (sequences.some(([, fresh], s) => done[s]! < fresh)) {
      const ranges: [number, number, number][] = [];
      sequences.forEach(([cached, fresh], s) => {
        const end = Math.min(done[s]! + chunk, fresh);
        if (end > done[s]!) ranges.push([s, cached + done[s]!, cached + end]);
      });
      const out = await readAll(d, this.#attend(ranges));
      let row = 0;
      for (const [s, from, to] of ranges) {
        results[s]!.set(out.subarray(row * width, (row + to - from) * width), done[s]! * width);
        row += to - from;
        done[s] = done[s]! + to - from;
      }
    }
    const all = new Float32Array(results.reduce((sum, r) => sum + r.length, 0));
    let at = 0;
    for (const result of results) {
      all.set(result, at);
      at += result.length;
    }
    return d.loadTensor(all, all.length / width, width);
  }

  /** Moves every page elsewhere, and what was there over the original. */
  async #move(how: "copy" | "transfer" | "tier"): Promise<void> {
    if (how === "tier") await readAll(this.#device, this.#device.allocTensor(1, 1)); // waits: what is saved has landed
    const bytes = new Uint8Array(MAX_TOKENS * this.#device.kvPageBytes(this.#pool.spec));
    for (const pages of this.#pages) {
      const elsewhere = pages.map((page) => page + this.#numPages);
      if (how === "transfer") {
        this.#device.readPages(bytes, this.#pool, pages, pages.length);
        this.#device.writePages(this.#pool, elsewhere, pages.length, bytes);
      }
      const kept = how === "tier" ? this.#save(pages) : [];
      for (let i = 0; i < pages.length; i++) {
        if (how === "copy") this.#device.copyPage(this.#pool, pages[i]!, elsewhere[i]!);
        this.#device.copyPage(this.#pool, 0, pages[i]!);
        if (how === "tier") this.#device.swapIn!(this.#pool, elsewhere[i]!, kept[i]!);
        pages[i] = elsewhere[i]!;
      }
    }
  }

  #save(pages: Int32Array): Uint8Array[] {
    const size = this.#device.kvPageBytes(this.#pool.spec);
    const { buffer, byteOffset } = this.#device.allocHost((pages.length * size) / 4);
    return Array.from(pages, (page, i) => {
      const bytes = new Uint8Array(buffer, byteOffset + i * size, size);
      this.#device.swapOut!(bytes, this.#pool, page);
      return bytes;
    });
  }

  /** Writes the keys and values of [sequence, from, to) ranges, as one batch, in both layers; their queries q [n, H*D]. */
  #append(ranges: readonly (readonly [number, number, number])[]): {
    readonly q: Tensor;
    readonly staged: StagedBatch;
  } {
    const d = this.#device;
    const { numKvHeads, groupSize, keyDim, valueDim } = this.#shape;
    const batch = new Batch(this.#shape.pageSize, MAX_TOKENS);
    const dummy = new Int32Array(MAX_TOKENS);
    for (const [s, from, to] of ranges) {
      batch.addRow(dummy, from, to - from, this.#pages[s]!, Number.POSITIVE_INFINITY);
      if (this.#shape.seesAhead) batch.setVisibleEnd(to, from, to);
    }
    const staged: StagedBatch = d.createStagedBatch(MAX_TOKENS);
    d.stage(staged, batch, [this.#planner.plan(batch)]);
    if (this.#rotary !== null) d.rotaryTable(this.#rotary, staged);
    const write = (layer: number, kind: number): Tensor => {
      const q = this.#rows(ranges, numKvHeads * groupSize * keyDim, kind);
      const k = this.#rows(ranges, numKvHeads * keyDim, kind + 1);
      const v = this.#rows(ranges, numKvHeads * valueDim, kind + 2);
      d.rotaryAppend(q, k, v, this.#rotary, this.#pool, layer, staged);
      return q;
    };
    write(0, 4); // other numbers: reading the wrong layer shows
    return { q: write(LAYER, 1), staged };
  }

  /** The same, and what they attend to in one layer: [n, H*Dv]. */
  #attend(ranges: readonly (readonly [number, number, number])[]): Tensor {
    const { numKvHeads, groupSize, keyDim, valueDim, softcap } = this.#shape;
    const numHeads = numKvHeads * groupSize;
    const { q, staged } = this.#append(ranges);
    const out = this.#device.allocTensor(q.rows, numHeads * valueDim);
    this.#device.attention(out, q, this.#pool, LAYER, staged, 0, {
      numHeads,
      scale: keyDim ** -0.5,
      softcap,
      sinks: this.#sinks,
    });
    return out;
  }

  /** Numbers of each token of the ranges, by (sequence, position), inside a wider tensor. */
  #rows(ranges: readonly (readonly [number, number, number])[], cols: number, kind: number): Tensor {
    const tokens: number[] = [];
    for (const [s, from, to] of ranges) for (let p = from; p < to; p++) tokens.push(s * 1000 + p);
    const wide = new Float32Array(tokens.length * (cols + 16));
    tokens.forEach((token, t) => {
      for (let c = 0; c < cols; c++) wide[t * (cols + 16) + 16 + c] = 4 * uniform(kind * 100_000 + token, c) - 2;
    });
    return this.#device.loadTensor(wide, tokens.length, cols + 16).columns(16, cols + 16);
  }
}
