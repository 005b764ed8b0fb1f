// Mixtures of experts: route, list the pairs (token, rank) by expert, two matmuls per expert with the gate between them, and the
// weighted sum (native/cuda/experts.cu).

import { errorFor } from "../../core/errors.js";
import type { ExpertWeights, RouterSpec } from "../device.js";
import { EXPERT_CODE, type Format, KIND, SCORE_CODE } from "./codes.js";
import { groupedShape, LEAST_TILE, mostPlaces, type Shape, STRIP_SHAPE } from "./expert-units.js";
import type { TileForm } from "./matmul.js";
import { addressOf } from "./row-ops.js";
import type { CudaRuntime } from "./runtime.js";
import { type CudaTensor, type CudaWeight, ORDER } from "./tensor.js";

const MAX_EXPERTS = 512;
const STRIP_WARPS = 4;
const STRIP_STAGES = 8;
const ROUTE_WARPS = 4;
const ORDER_THREADS = 1024;
/** Tokens that route_few takes: a group of the tensor cores, so that a unit has a place for each without being larger. */
const FEW_TOKENS = 8;
/** RouteRoom of experts.cu. */
const ROUTE_ROOM_BYTES = 8 * MAX_EXPERTS + 12 * 64;
/** Steps of 64 k's in a stage and stages of the ring of experts-stream.cuh. */
const EXPERT_RING: readonly [steps: number, stages: number] = [4, 3];
/** What one call is about; written anew by each. */
interface Step {
  router: RouterSpec;
  experts: ExpertWeights;
  layer: Layer;
  room: Room;
  n: number;
  hidden: number;
  shape: Shape;
  /** Of the tokens, where all units read it; 0: each has its own. */
  operand: number;
}

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
  /** Whether products are those of experts-grouped.cuh. */
  readonly isGrouped: boolean;
  readonly maxPairs: number;
  readonly places: number;
  readonly ids: number;
  readonly weights: number;
  readonly range: number;
  readonly count: number;
  readonly units: number;
  readonly numUnits: number;
  readonly pairOf: number;
  readonly placeOf: number;
  readonly x: number; // gathered inputs: operand or f32 rows
  readonly gateUp: number; // [places, 2 * inner] f32; none where products are grouped
  readonly inner: number; // operand or f32 rows
  readonly y: number; // [places, hidden] f32
}

export class CudaExperts {
  readonly #runtime: CudaRuntime;
  readonly #layers = new Map<ExpertWeights, Layer>();
  readonly #rooms = new Map<string, Room>();
  readonly #step = {} as Step;

  constructor(runtime: CudaRuntime) {
    this.#runtime = runtime;
  }

  /** Throws where the kernels cannot multiply these experts. */
  bind(experts: ExpertWeights, numExperts: number): void {
    if (numExperts > MAX_EXPERTS) throw unsupported(`${numExperts} experts; ${MAX_EXPERTS} at most`);
    this.#layerOf(experts);
  }

  run(out: CudaTensor, x: CudaTensor, logits: CudaTensor, router: RouterSpec, experts: ExpertWeights, n: number): void {
    if (n === 0) return;
    const layer = this.#layerOf(experts);
    const room = this.#roomFor(x, router, experts, layer);
    const step = this.#step;
    step.router = router;
    step.experts = experts;
    step.layer = layer;
    step.room = room;
    step.n = n;
    step.hidden = x.cols;
    step.shape = room.isGrouped ? groupedShape(n, router) : STRIP_SHAPE;
    const { form } = step.shape;
    step.operand = 0;
    if (room.isGrouped && n <= FEW_TOKENS && router.scalesInput !== true) {
      this.#routeFew(logits, step);
      step.operand = this.#runtime.operandOf(x, n, layer.gateUp.format.kind).address;
    } else {
      this.#route(logits, step);
      this.#order(step);
      this.#gather(x, step);
    }
    if (!room.isGrouped) this.#apart(step);
    else {
      for (let side = 0; side < 2; side++) {
        if (form === null) this.#stream(step, side === 0);
        else this.#tiles(step, form, side === 0);
      }
    }
    this.#combine(out, step);
  }

  #route(logits: CudaTensor, step: Step): void {
    const { queue, modules } = this.#runtime;
    const blocks = Math.ceil(step.n / ROUTE_WARPS);
    queue.begin(modules.functionOf("experts", "route"), blocks, 1, 1, 32 * ROUTE_WARPS, 0);
    this.#routeArguments(logits, step);
    queue.end();
  }

  /** Up to FEW_TOKENS: the units of their experts too. */
  #routeFew(logits: CudaTensor, step: Step): void {
    const { queue, modules } = this.#runtime;
    const { n, room, shape } = step;
    const mostShared = FEW_TOKENS * ROUTE_ROOM_BYTES;
    queue.begin(modules.functionOf("experts", "route_few", mostShared), 1, 1, 1, 32 * n, n * ROUTE_ROOM_BYTES);
    this.#routeArguments(logits, step);
    queue.long(room.placeOf).long(room.units).long(room.numUnits).int(shape.padding).int(0).end();
  }

  #routeArguments(logits: CudaTensor, { router, room, n }: Step): void {
    this.#runtime.queue
      .long(logits.address)
      .long(addressOf(router.bias))
      .long(addressOf(router.expertScale ?? null))
      .long(room.ids)
      .long(room.weights)
      .long(logits.stride)
      .int(n)
      .int(router.numExperts)
      .int(router.topK)
      .int(SCORE_CODE[router.score])
      .int(router.normalize ? 1 : 0)
      .int(router.numGroups)
      .int(router.topkGroup)
      .int(router.groupBest ?? 2)
      .float(router.scale)
      .int(0);
  }

  #order({ router: { numExperts, topK }, room, n, shape: { padding, unitTokens } }: Step): void {
    const { queue, modules } = this.#runtime;
    queue
      .begin(modules.functionOf("experts", "order_by_expert"), 1, 1, 1, ORDER_THREADS, 0)
      .long(room.ids)
      .long(room.range)
      .long(room.count)
      .long(room.pairOf)
      .long(room.placeOf)
      .long(room.units)
      .long(room.numUnits)
      .int(n)
      .int(topK)
      .int(numExperts)
      .int(padding)
      .int(unitTokens)
      .int(0)
      .end();
  }

  #gather(x: CudaTensor, step: Step): void {
    const { queue, modules } = this.#runtime;
    const { router, room, layer } = step;
    const { numExperts, topK } = router;
    const isF32 = layer.gateUp.format.kind === KIND.none;
    const paddedHidden = pad(x.cols);
    queue
      .begin(modules.functionOf("experts", "gather_pairs"), placesOf(step), Math.ceil(paddedHidden / 2048), 1, 256, 0)
      .long(x.address)
      .long(isF32 ? room.x : 0)
      .long(room.pairOf)
      .long(room.range)
      .long(router.scalesInput === true ? room.weights : 0);
    this.#operand(step, room.x, layer.gateUp)
      .long(x.stride)
      .long(x.cols)
      .int(topK)
      .int(numExperts)
      .int(x.cols)
      .int(paddedHidden)
      .int(room.isGrouped && step.shape.form === null ? step.shape.padding : 0)
      .int(0)
      .end();
  }

  /** The arguments of an operand of the listed pairs. */
  #operand({ room, shape: { form, padding } }: Step, address: number, { format: { kind } }: Stack) {
    if (kind === KIND.none) return this.#runtime.noOperand();
    const isPieces = room.isGrouped && form === null;
    const tokens8 = isPieces ? padding / 8 : room.places / 8;
    return this.#runtime.operandArgs({ address, tokens8, kind, order: form === null ? ORDER.strip : ORDER.tile });
  }

  #combine(out: CudaTensor, { router, room, n, hidden }: Step): void {
    const { queue, modules } = this.#runtime;
    out.storage.version++;
    queue
      .begin(modules.functionOf("experts", "combine_experts"), n, Math.ceil(hidden / 1024), 1, 256, 0)
      .long(out.address)
      .long(room.y)
      .long(room.placeOf)
      .long(router.scalesInput === true ? 0 : room.weights)
      .long(out.stride)
      .long(hidden)
      .int(router.topK)
      .int(hidden)
      .end();
  }

  // --- on Hopper, where gate and up are whole tiles: products of units (native/cuda/experts-grouped.cuh) -----------------

  /** Gate and up with the activation between them, or the projection down. */
  #stream(step: Step, isUp: boolean): void {
    const { queue, modules } = this.#runtime;
    const { format, rows, cols } = this.#sideOf(step, isUp);
    const groups = step.shape.padding / 8;
    const [steps, stages] = EXPERT_RING;
    const sharedBytes = stages * steps * (2 * format.stepBytes + groups * 1024);
    const source = format.isCoded ? "experts-stream-codes" : "experts-stream";
    const kernel = modules.functionOf(source, `expert_stream_${format.name}_${groups}`, sharedBytes);
    const strips = Math.ceil(rows / 16);
    queue.begin(kernel, isUp ? strips : Math.ceil(strips / 2), unitsOf(step), 1, 96, sharedBytes);
    const isShared = isUp && step.operand !== 0;
    queue.long(isShared ? step.operand : isUp ? step.room.x : step.room.inner).long(0);
    this.#epilogue(step, isUp);
    const steps64 = pad(cols) / 64;
    queue.int(0).int(rows).int(strips).int(steps64).int(steps64).int(0);
    this.#units(step, isUp)
      .int(isShared ? 1 : 0)
      .int(0)
      .end();
  }

  #tiles(step: Step, form: TileForm, isUp: boolean): void {
    const { queue, modules } = this.#runtime;
    const { format, rows, cols } = this.#sideOf(step, isUp);
    const { tokens, weightSteps, weightStages, operandStages } = form;
    const sharedBytes = weightStages * weightSteps * 8 * format.stepBytes + operandStages * tokens * 128;
    const source = format.isCoded ? "experts-tile-codes" : "experts-tile";
    const kernel = modules.functionOf(source, `expert_tile_${format.name}_${tokens}`, sharedBytes);
    const strips = Math.ceil(rows / 16);
    queue.begin(kernel, Math.ceil(strips / (isUp ? 4 : 8)), unitsOf(step), 1, 384, sharedBytes);
    queue
      .long(isUp ? step.room.x : step.room.inner)
      .long(0)
      .long(0)
      .long(0);
    this.#epilogue(step, isUp);
    const steps64 = pad(cols) / 64;
    queue
      .int(0)
      .int(step.room.places / 8)
      .int(rows)
      .int(strips)
      .int(steps64)
      .int(1)
      .int(steps64)
      .int(0);
    this.#units(step, isUp).end();
  }

  #sideOf({ layer, experts, hidden }: Step, isUp: boolean): { format: Format; rows: number; cols: number } {
    const { format } = isUp ? layer.gateUp : layer.down;
    return isUp ? { format, rows: experts.inner, cols: hidden } : { format, rows: hidden, cols: experts.inner };
  }

  #epilogue(step: Step, isUp: boolean): void {
    const { room, experts, layer, hidden } = step;
    const { queue } = this.#runtime;
    queue
      .long(isUp ? 0 : room.y)
      .long(addressOf(isUp ? experts.gateUpBias : experts.downBias))
      .long(isUp ? 0 : hidden)
      .float(1)
      .int(0);
    if (isUp) this.#operand(step, room.inner, layer.down);
    else this.#runtime.noOperand();
    queue.int(isUp ? 1 : 0).int(isUp ? EXPERT_CODE[experts.activation] : 0);
  }

  #units({ layer, room, experts }: Step, isUp: boolean) {
    const bias = isUp ? experts.gateUpBias : experts.downBias;
    return this.#runtime.queue
      .long((isUp ? layer.gateUp : layer.down).addresses)
      .long(room.units)
      .long(room.numUnits)
      .long(bias?.stride ?? 0);
  }

  // --- elsewhere: products of 8 tokens at a time, the gate apart ---------------------------------------------------------

  #apart(step: Step): void {
    const { room, layer, experts, hidden } = step;
    const { inner } = experts;
    const width = isGated(experts) ? 2 * inner : inner;
    this.#matmul(step, layer.gateUp, room.x, hidden, room.gateUp, width, experts.gateUpBias);
    this.#gate(step);
    this.#matmul(step, layer.down, room.inner, inner, room.y, hidden, experts.downBias);
  }

  #gate(step: Step): void {
    const { queue, modules } = this.#runtime;
    const { room, layer, experts, router } = step;
    const { inner } = experts;
    const isF32 = layer.gateUp.format.kind === KIND.none;
    const paddedInner = pad(inner);
    queue
      .begin(modules.functionOf("experts", "expert_gate"), placesOf(step), Math.ceil(paddedInner / 512), 1, 256, 0)
      .long(room.gateUp)
      .long(isF32 ? room.inner : 0)
      .long(room.range);
    this.#operand(step, room.inner, layer.down)
      .long(isGated(experts) ? 2 * inner : inner)
      .long(inner)
      .int(inner)
      .int(paddedInner)
      .int(EXPERT_CODE[experts.activation])
      .int(router.numExperts)
      .int(isGated(experts) ? 1 : 0)
      .int(0)
      .end();
  }

  #matmul(
    { room, n, router: { numExperts } }: Step,
    { addresses: weights, format }: Stack,
    x: number,
    cols: number,
    out: number,
    rows: number,
    bias: ExpertWeights["downBias"],
  ): void {
    const { queue, modules } = this.#runtime;
    const blocks = Math.min(16, Math.ceil(n / 8));
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
  #roomFor(x: CudaTensor, router: RouterSpec, experts: ExpertWeights, layer: Layer): Room {
    const { numExperts, topK } = router;
    const { inner } = experts;
    const isF32 = layer.gateUp.format.kind === KIND.none;
    // Whole tiles of gate and up each; which way a product goes depends on the weights alone, so that no row's bits depend on the others.
    const isGrouped = this.#runtime.isHopper && !isF32 && isGated(experts) && inner % 64 === 0;
    const key = `${x.rows} ${x.cols} ${numExperts} ${topK} ${inner} ${isF32} ${isGrouped}`;
    const known = this.#rooms.get(key);
    if (known !== undefined) return known;
    const maxPairs = x.rows * topK;
    const most = (n: number): number => {
      const { padding } = isGrouped ? groupedShape(n, router) : STRIP_SHAPE;
      return mostPlaces(n * topK, numExperts, padding);
    };
    const places = Math.max(most(x.rows), ...[8, 16, 32].map((n) => most(Math.min(n, x.rows))));
    const { context } = this.#runtime;
    const take = (bytes: number): number => context.alloc(bytes, "the mixture of experts");
    const elementBytes = isF32 ? 4 : 2;
    const room: Room = {
      isGrouped,
      maxPairs,
      places,
      ids: take(4 * maxPairs),
      weights: take(4 * maxPairs),
      range: take(4 * (numExperts + 1)),
      count: take(4 * numExperts),
      units: take(16 * (Math.min(numExperts, maxPairs) + Math.ceil(places / LEAST_TILE))),
      numUnits: take(4),
      pairOf: take(4 * places),
      placeOf: take(4 * maxPairs),
      x: take(elementBytes * places * pad(x.cols)),
      gateUp: isGrouped ? 0 : take(4 * places * 2 * inner),
      inner: take(elementBytes * places * pad(inner)),
      y: take(4 * places * x.cols),
    };
    this.#rooms.set(key, room);
    return room;
  }
}

function placesOf({ n, router: { topK, numExperts }, shape: { padding } }: Step): number {
  return mostPlaces(n * topK, numExperts, padding);
}

/** At most so many units of a step. */
function unitsOf({ n, router: { topK, numExperts }, shape: { unitTokens } }: Step): number {
  return Math.min(numExperts, n * topK) + Math.floor((n * topK) / unitTokens);
}

function isGated({ isGated: says }: ExpertWeights): boolean {
  return says !== false;
}

function pad(cols: number): number {
  return Math.ceil(cols / 64) * 64;
}

function unsupported(reason: string): Error {
  return errorFor("device_call", { device: "cuda", call: "mixtureOfExperts", status: -1, reason });
}
