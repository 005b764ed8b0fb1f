// Mixtures of experts: route, list the pairs (token, rank) by expert, two matmuls per expert with the gate between them, and the
// weighted sum (native/cuda/experts.cu).

import { errorFor } from "../../core/errors.js";
import type { ExpertWeights, RouterSpec } from "../device.js";
import { EXPERT_CODE, type Format, KIND, SCORE_CODE } from "./codes.js";
import { addressOf } from "./row-ops.js";
import type { CudaRuntime } from "./runtime.js";
import { type CudaTensor, type CudaWeight, ORDER } from "./tensor.js";

const MAX_EXPERTS = 512;
const STRIP_WARPS = 4;
const STRIP_STAGES = 8;

/** The same matrix of all experts. */
interface Stack {
  readonly addresses: number; // device array [E]
  readonly format: Format;
}

interface Layer {
  readonly gateUp: Stack;
  readonly down: Stack;
}

/** Room for the pairs of a step; shared by the layers of one shape. */
interface Room {
  readonly maxPairs: number;
  readonly places: number;
  readonly ids: number;
  readonly weights: number;
  readonly range: number;
  readonly count: number;
  readonly pairOf: number;
  readonly placeOf: number;
  readonly x: number; // gathered inputs: operand or f32 rows
  readonly gateUp: number; // [places, 2 * inner] f32
  readonly inner: number; // operand or f32 rows
  readonly y: number; // [places, hidden] f32
}

export class CudaExperts {
  readonly #runtime: CudaRuntime;
  readonly #layers = new Map<ExpertWeights, Layer>();
  readonly #rooms = new Map<string, Room>();

  constructor(runtime: CudaRuntime) {
    this.#runtime = runtime;
  }

  run(out: CudaTensor, x: CudaTensor, logits: CudaTensor, router: RouterSpec, experts: ExpertWeights, n: number): void {
    if (n === 0) return;
    const { queue, modules } = this.#runtime;
    const { numExperts, topK } = router;
    const { inner } = experts;
    const isGated = experts.isGated !== false;
    const width = isGated ? 2 * inner : inner;
    const hidden = x.cols;
    const layer = this.#layerOf(experts);
    const isF32 = layer.gateUp.format.kind === KIND.none;
    const room = this.#roomFor(x, router, inner, isF32);
    const places = Math.ceil((n * topK + 7 * Math.min(numExperts, n * topK)) / 8) * 8;
    const paddedHidden = pad(hidden);
    const paddedInner = pad(inner);
    queue
      .begin(modules.functionOf("experts", "route"), Math.ceil(n / 64), 1, 1, 64, 0)
      .long(logits.address)
      .long(addressOf(router.bias))
      .long(addressOf(router.expertScale ?? null))
      .long(room.ids)
      .long(room.weights)
      .long(logits.stride)
      .int(n)
      .int(numExperts)
      .int(topK)
      .int(SCORE_CODE[router.score])
      .int(router.normalize ? 1 : 0)
      .int(router.numGroups)
      .int(router.topkGroup)
      .int(router.groupBest ?? 2)
      .float(router.scale)
      .int(0)
      .end();
    queue
      .begin(modules.functionOf("experts", "order_by_expert"), 1, 1, 1, MAX_EXPERTS, 0)
      .long(room.ids)
      .long(room.range)
      .long(room.count)
      .long(room.pairOf)
      .long(room.placeOf)
      .int(n)
      .int(topK)
      .int(numExperts)
      .int(0)
      .end();

    const tokens8 = room.places / 8;
    const operand = (address: number, { format: { kind } }: Stack) =>
      isF32 ? this.#runtime.noOperand() : this.#runtime.operandArgs({ address, tokens8, kind, order: ORDER.strip });
    queue
      .begin(modules.functionOf("experts", "gather_pairs"), places, Math.ceil(paddedHidden / 512), 1, 256, 0)
      .long(x.address)
      .long(isF32 ? room.x : 0)
      .long(room.pairOf)
      .long(room.range)
      .long(router.scalesInput === true ? room.weights : 0);
    operand(room.x, layer.gateUp)
      .long(x.stride)
      .long(hidden)
      .int(topK)
      .int(numExperts)
      .int(hidden)
      .int(paddedHidden)
      .end();
    const blocks = Math.min(16, Math.ceil(n / 8));
    this.#matmul(room, layer.gateUp, room.x, hidden, room.gateUp, width, experts.gateUpBias, numExperts, blocks);
    queue
      .begin(modules.functionOf("experts", "expert_gate"), places, Math.ceil(paddedInner / 512), 1, 256, 0)
      .long(room.gateUp)
      .long(isF32 ? room.inner : 0)
      .long(room.range);
    operand(room.inner, layer.down)
      .long(width)
      .long(inner)
      .int(inner)
      .int(paddedInner)
      .int(EXPERT_CODE[experts.activation])
      .int(numExperts)
      .int(isGated ? 1 : 0)
      .int(0)
      .end();
    this.#matmul(room, layer.down, room.inner, inner, room.y, hidden, experts.downBias, numExperts, blocks);
    out.storage.version++;
    this.#runtime
      .overRows("experts", "combine_experts", hidden, n)
      .long(out.address)
      .long(room.y)
      .long(room.placeOf)
      .long(router.scalesInput === true ? 0 : room.weights)
      .long(out.stride)
      .long(hidden)
      .int(topK)
      .int(hidden)
      .end();
  }

  #matmul(
    room: Room,
    { addresses: weights, format }: Stack,
    x: number,
    cols: number,
    out: number,
    rows: number,
    bias: ExpertWeights["downBias"],
    numExperts: number,
    blocks: number,
  ): void {
    const { queue, modules } = this.#runtime;
    const epilogue = () => queue.long(out).long(addressOf(bias)).long(rows).float(1).int(0);
    const biasStride = bias === null ? 0 : bias.stride;
    if (format.kind === KIND.none) {
      queue
        .begin(modules.functionOf("matmul-f32", "expert_matmul_f32"), Math.ceil(rows / 8), blocks, numExperts, 256, 0)
        .long(x)
        .long(0);
      epilogue()
        .long(cols)
        .int(0)
        .int(rows)
        .int(cols)
        .int(0)
        .long(weights)
        .long(room.range)
        .long(room.count)
        .long(biasStride)
        .end();
      return;
    }
    const strips = Math.ceil(rows / 16);
    const sharedBytes = STRIP_STAGES * (STRIP_WARPS * format.stepBytes + 1024);
    const source = format.isCoded ? "matmul-strip-codes" : "matmul-strip";
    const kernel = modules.functionOf(source, `expert_strip_${format.name}`, sharedBytes);
    queue
      .begin(kernel, Math.ceil(strips / STRIP_WARPS), blocks, numExperts, 32 * STRIP_WARPS, sharedBytes)
      .long(x)
      .long(weights)
      .long(room.range)
      .long(room.count);
    epilogue()
      .long(biasStride)
      .int(room.places / 8)
      .int(rows)
      .int(strips)
      .int(pad(cols) / 64)
      .end();
  }

  #layerOf(experts: ExpertWeights): Layer {
    const known = this.#layers.get(experts);
    if (known !== undefined) return known;
    const layer = { gateUp: this.#stack(experts.gateUp), down: this.#stack(experts.down) };
    if ((layer.gateUp.format.kind === KIND.none) !== (layer.down.format.kind === KIND.none)) {
      throw unsupported("expert weights of which some are f32");
    }
    this.#layers.set(experts, layer);
    return layer;
  }

  #stack(weights: ExpertWeights["down"]): Stack {
    const { format } = weights[0] as CudaWeight;
    if (weights.some((weight) => (weight as CudaWeight).format !== format)) {
      throw unsupported("experts of several encodings");
    }
    const values = BigUint64Array.from(weights, (weight) => BigInt((weight as CudaWeight).address));
    const addresses = this.#runtime.context.alloc(values.byteLength, "the experts' addresses");
    this.#runtime.upload(addresses, new Uint8Array(values.buffer));
    return { addresses, format };
  }

  /** Made at the first step of a shape, for as many rows as its input has. */
  #roomFor(x: CudaTensor, { numExperts, topK }: RouterSpec, inner: number, isF32: boolean): Room {
    if (numExperts > MAX_EXPERTS) throw unsupported(`${numExperts} experts; ${MAX_EXPERTS} at most`);
    const key = `${x.rows} ${x.cols} ${numExperts} ${topK} ${inner} ${isF32}`;
    const known = this.#rooms.get(key);
    if (known !== undefined) return known;
    const maxPairs = x.rows * topK;
    const places = Math.ceil((maxPairs + 7 * Math.min(numExperts, maxPairs)) / 8) * 8;
    const { context } = this.#runtime;
    const take = (bytes: number): number => context.alloc(bytes, "the mixture of experts");
    const elementBytes = isF32 ? 4 : 2;
    const room: Room = {
      maxPairs,
      places,
      ids: take(4 * maxPairs),
      weights: take(4 * maxPairs),
      range: take(4 * (numExperts + 1)),
      count: take(4 * numExperts),
      pairOf: take(4 * places),
      placeOf: take(4 * maxPairs),
      x: take(elementBytes * places * pad(x.cols)),
      gateUp: take(4 * places * 2 * inner),
      inner: take(elementBytes * places * pad(inner)),
      y: take(4 * places * x.cols),
    };
    this.#rooms.set(key, room);
    return room;
  }
}

function pad(cols: number): number {
  return Math.ceil(cols / 64) * 64;
}

function unsupported(reason: string): Error {
  return errorFor("device_call", { device: "cuda", call: "mixtureOfExperts", status: -1, reason });
}
