// Mixtures of experts on the GPU (kernels/experts.ts): the experts of a layer are one stack, so that a kernel finds a pair's expert by its id.

import type { ExpertWeights, RouterSpec } from "../op-specs.js";
import type { GpuBuffer, GpuQueue } from "./gpu-queue.js";
import type { Kernel } from "./kernel.js";
import { BLOCK_UNIT, type Encoding, isFloat, rowBytes } from "./kernels/encodings.js";
import { COMBINE, expertKernel, gateKernel, MOST_EXPERTS, routeKernel, SCALE_PAIRS } from "./kernels/experts.js";
import { heightOf, SERIAL_ROWS, VECTOR_SHAPES } from "./kernels/matvec.js";
import { MOST_GROUPS, unsupported } from "./limits.js";
import type { RoundedRows } from "./rounded-rows.js";
import { GpuTensor, type GpuWeight } from "./tensor.js";

/** The same matrix of the experts [first, end). */
interface StackPart {
  readonly buffer: GpuBuffer;
  readonly first: number;
  readonly end: number;
  readonly factorsAt: number;
}

interface Stack {
  readonly parts: readonly StackPart[];
  readonly dtype: Encoding;
  readonly rows: number; // of one expert
  readonly units: number;
  readonly kernel: Kernel;
}

interface Layer {
  readonly gateUp: Stack;
  readonly down: Stack;
  readonly gate: Kernel;
}

/** Room for the pairs of a step; shared by the layers of one shape. */
interface Room {
  readonly ids: GpuBuffer;
  readonly weights: GpuBuffer;
  readonly x: GpuTensor;
  readonly gateUp: GpuTensor;
  readonly inner: GpuTensor;
  readonly y: GpuTensor;
}

const NAN = 0x7fc00000;

export class GpuExperts {
  readonly #queue: GpuQueue;
  readonly #nothing: GpuBuffer;
  readonly #rounded: RoundedRows;
  readonly #layers = new Map<ExpertWeights, Layer>();
  readonly #rooms = new Map<string, Room>();
  readonly #kernels = new Map<string, Kernel>();

  constructor(queue: GpuQueue, nothing: GpuBuffer, rounded: RoundedRows) {
    this.#queue = queue;
    this.#nothing = nothing;
    this.#rounded = rounded;
  }

  run(out: GpuTensor, x: GpuTensor, logits: GpuTensor, router: RouterSpec, experts: ExpertWeights, n: number): void {
    if (n === 0) return;
    const { topK, numExperts } = router;
    if (numExperts > MOST_EXPERTS)
      throw unsupported("mixtureOfExperts", `${numExperts} experts; ${MOST_EXPERTS} at most`);
    const queue = this.#queue;
    const layer = this.#layerOf(experts);
    const room = this.#roomFor(x, topK, layer.gateUp.rows, experts.inner);
    const pairs = n * topK;
    this.#route(room, logits, router, n);
    let input = x;
    if (router.scalesInput === true) {
      queue
        .begin(SCALE_PAIRS)
        .operand(room.x.buffer)
        .operand(x.buffer)
        .operand(room.weights)
        .u32(x.cols)
        .u32(topK)
        .u32(x.offset)
        .u32(x.stride)
        .dispatch(Math.ceil(x.cols / 128), pairs);
      input = room.x;
    }
    const inputRows = input === x ? n : pairs;
    this.#product(
      room.gateUp,
      input,
      inputRows,
      input === x ? topK : 1,
      layer.gateUp,
      experts.gateUpBias as GpuTensor | null,
      room,
      pairs,
    );
    queue
      .begin(layer.gate)
      .operand(room.inner.buffer)
      .operand(room.gateUp.buffer)
      .u32(experts.inner)
      .u32(layer.gateUp.rows)
      .dispatch(Math.ceil(experts.inner / 128), pairs);
    this.#product(room.y, room.inner, pairs, 1, layer.down, experts.downBias as GpuTensor | null, room, pairs);
    queue
      .begin(COMBINE)
      .operand(out.buffer)
      .operand(room.y.buffer)
      .operand(room.weights)
      .u32(out.cols)
      .u32(topK)
      .u32(out.offset)
      .u32(out.stride)
      .u32(router.scalesInput === true ? 0 : 1)
      .dispatch(Math.ceil(out.cols / 128), n);
  }

  #route(room: Room, logits: GpuTensor, router: RouterSpec, n: number): void {
    const kernel = this.#cached(`route-${router.score}`, () => routeKernel(router.score));
    const bias = router.bias as GpuTensor | null;
    const factors = (router.expertScale ?? null) as GpuTensor | null;
    this.#queue
      .begin(kernel)
      .operand(room.ids)
      .operand(room.weights)
      .operand(logits.buffer)
      .operand(bias === null ? this.#nothing : bias.buffer)
      .operand(factors === null ? this.#nothing : factors.buffer)
      .u32(router.numExperts)
      .u32(router.topK)
      .u32(logits.offset)
      .u32(logits.stride)
      .u32(bias === null ? 0 : 1)
      .u32(bias === null ? 0 : bias.offset)
      .u32(factors === null ? 0 : 1)
      .u32(factors === null ? 0 : factors.offset)
      .u32(router.normalize ? 1 : 0)
      .u32(router.numGroups)
      .u32(router.topkGroup)
      .u32(router.groupBest ?? 2)
      .f32(router.scale)
      .u32(NAN)
      .dispatch(n);
  }

  #product(
    out: GpuTensor,
    x: GpuTensor,
    xRows: number,
    pairsPerRow: number,
    { parts, dtype, rows, units, kernel }: Stack,
    bias: GpuTensor | null,
    room: Room,
    pairs: number,
  ): void {
    const isBlock = !isFloat(dtype);
    if (isBlock) this.#rounded.of(x, xRows);
    if (pairs > MOST_GROUPS)
      throw unsupported(
        "mixtureOfExperts",
        `${pairs} pairs of a token and an expert in a step; ${MOST_GROUPS} at most`,
      );
    for (const { buffer, first, end, factorsAt } of parts) {
      const queue = this.#queue;
      queue.begin(kernel).operand(out.buffer);
      if (isBlock) queue.operand(this.#rounded.codes).operand(this.#rounded.factors).operand(buffer).operand(buffer);
      else queue.operand(x.buffer).operand(buffer);
      queue
        .operand(bias === null ? this.#nothing : bias.buffer)
        .operand(room.ids)
        .u32(rows)
        .u32(units)
        .u32(factorsAt)
        .u32(pairs)
        .u32(bias === null ? 0 : 1)
        .u32(bias === null ? 0 : bias.offset)
        .u32(bias === null ? 0 : bias.stride)
        .u32(first)
        .u32(end)
        .u32(pairsPerRow);
      if (isBlock) queue.u32(x.cols / BLOCK_UNIT);
      else queue.u32(x.offset).u32(x.stride).u32(x.cols);
      queue.dispatch(Math.ceil(rows / (queue.isSerial ? SERIAL_ROWS : heightOf(VECTOR_SHAPES[1]!))), pairs);
    }
  }

  #layerOf(experts: ExpertWeights): Layer {
    const known = this.#layers.get(experts);
    if (known !== undefined) return known;
    const isGated = experts.isGated !== false;
    const layer = {
      gateUp: this.#stack(experts.gateUp as readonly GpuWeight[]),
      down: this.#stack(experts.down as readonly GpuWeight[]),
      gate: this.#cached(`gate-${experts.activation}-${isGated}`, () => gateKernel(experts.activation, isGated)),
    };
    this.#layers.set(experts, layer);
    return layer;
  }

  /** One buffer for as many experts as a binding takes. Each expert's own buffer is given back. */
  #stack(weights: readonly GpuWeight[]): Stack {
    const { dtype, rows, cols, units } = weights[0]!;
    if (weights.some((weight) => weight.dtype !== dtype || weight.parts.length > 1)) {
      throw unsupported("mixtureOfExperts", "experts of several encodings, or larger than a binding");
    }
    const queue = this.#queue;
    const bytes = rows * rowBytes(dtype, cols);
    const codeBytes =
      isFloat(dtype) || dtype === "q4_k" || dtype === "q6_k" ? bytes : rows * (dtype === "q4_0" ? cols / 2 : cols);
    const { maxBufferSize, maxStorageBufferBindingSize } = queue.handle.limits;
    const most = Math.max(1, Math.floor((Math.min(maxBufferSize, maxStorageBufferBindingSize) - 16) / bytes));
    const parts: StackPart[] = [];
    for (let first = 0; first < weights.length; first += most) {
      const end = Math.min(weights.length, first + most);
      const buffer = queue.alloc((end - first) * bytes, "a layer's experts");
      const factorsAt = (end - first) * codeBytes;
      for (let e = first; e < end; e++) {
        const { buffer: own, factorsAt: ownFactors } = weights[e]!.parts[0]!;
        queue.copy(own, 0, buffer.memory, (e - first) * codeBytes, codeBytes);
        const rest = bytes - codeBytes;
        if (rest > 0) queue.copy(own, 4 * ownFactors, buffer.memory, factorsAt + (e - first) * rest, rest);
        queue.free(own);
      }
      parts.push({ buffer, first, end, factorsAt: factorsAt / 4 });
    }
    return {
      parts,
      dtype,
      rows,
      units,
      kernel: this.#cached(`experts-${dtype}`, () => expertKernel(dtype, queue.isSerial)),
    };
  }

  #cached(key: string, make: () => Kernel): Kernel {
    const kernel = this.#kernels.get(key) ?? make();
    this.#kernels.set(key, kernel);
    return kernel;
  }

  /** Made at the first step of a shape, for as many rows as its input has. */
  #roomFor(x: GpuTensor, topK: number, width: number, inner: number): Room {
    const key = `${x.rows} ${x.cols} ${topK} ${width} ${inner}`;
    const known = this.#rooms.get(key);
    if (known !== undefined) return known;
    const pairs = x.rows * topK;
    const rows = (cols: number): GpuTensor =>
      new GpuTensor(this.#queue.alloc(4 * pairs * cols, "the mixture of experts"), 0, pairs, cols, cols);
    const room = {
      ids: this.#queue.alloc(4 * pairs, "chosen experts"),
      weights: this.#queue.alloc(4 * pairs, "weights of chosen experts"),
      x: rows(x.cols),
      gateUp: rows(width),
      inner: rows(inner),
      y: rows(x.cols),
    };
    this.#rooms.set(key, room);
    return room;
  }
}
