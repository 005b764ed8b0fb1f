// Loads a tower from what its family says of it.

import type { HostTensor } from "../../core/tensor.js";
import type { Activation, Device, KvDtype, RotaryTable } from "../../device/device.js";
import { madeTensor, reshaped } from "../../formats/tensor-views.js";
import type { PatchLayout } from "../../vision/patches.js";
import { type AttentionSettings, loadAttention, SelfAttention } from "../blocks/attention.js";
import { ADD, type Epilogue } from "../blocks/block.js";
import { Linear } from "../blocks/linear.js";
import { loadMlp, type MlpNaming } from "../blocks/mlp.js";
import { loadNorm, type Norm, type NormStyle, normOf, plainNorm } from "../blocks/norm.js";
import { type Layer, Residual } from "../blocks/residual.js";
import type { NormNames } from "../decoder.js";
import type { Loader, TensorChange } from "../loader.js";
import type { ModelCapacity } from "../model.js";
import { HeadPadding, paddedCols, paddedHeadDim } from "./pad-heads.js";
import { numPagesFor, PAGE_SIZE, Segments } from "./segments.js";
import { type Angle, Tower, type TowerParts, type Windows } from "./tower.js";
import type { VisionSpec } from "./vision-model.js";

export interface TowerConfig {
  readonly hiddenSize: number;
  /** Of those, how many run: features may be taken before the last. */
  readonly numLayers: number;
  readonly numHeads: number; // H
  readonly numKvHeads: number; // K
  readonly headDim: number; // D
  readonly innerSize: number;
  readonly activation: Activation;
  readonly innerScale?: number;
  readonly norm: NormStyle;
  readonly attention: AttentionSettings;
  readonly attentionScale: number;
  /** Values are normed, without weights. */
  readonly normsValues?: boolean;
  readonly mlp: MlpNaming;
  readonly names: {
    layer(i: number): string;
    readonly attention: string;
    readonly mlp: string;
    readonly attentionNorms: NormNames;
    readonly mlpNorms: NormNames;
  };
  readonly patches: PatchLayout;
  /** null: patches are not turned. */
  readonly angles: readonly Angle[] | null;
  /** How patches are turned; omitted: pairs of numbers half a head apart, by places counted from 0. */
  readonly turn?: { readonly isInterleaved: boolean; readonly firstPlace: number };
}

/** The matrix of patches, in whatever shape the checkpoint has it: [hidden, patch]. */
export function loadPatchLinear(loader: Loader, name: string, shape: readonly number[], bias: string | null): Linear {
  const [rows, ...rest] = shape as [number, ...number[]];
  const cols = rest.reduce((product, size) => product * size, 1);
  const tensor = reshaped(loader.host(name, shape), name, [rows, cols]);
  const weight = loader.matrixOf([loader.device.info.hasOwnMemory ? asBf16(tensor) : tensor], { quantize: "none" });
  return new Linear(loader.device, weight, bias === null ? null : loader.vector(bias, rows));
}

/** mmproj files have it in f32 though it was bf16: half of each number is zeros then, and the device multiplies 16 bits much faster. */
function asBf16(tensor: HostTensor): HostTensor {
  if (tensor.dtype !== "f32") return tensor;
  const words = new Uint32Array(tensor.bytes().slice().buffer);
  if (!words.every((word) => (word & 0xffff) === 0)) return tensor;
  const { name, shape } = tensor;
  return madeTensor(name, "bf16", shape, () => new Uint8Array(Uint16Array.from(words, (word) => word >>> 16).buffer));
}

/** What a family adds of its own. */
export type TowerEnds = Pick<TowerParts, "patch" | "first" | "positionsOf" | "before" | "after"> & {
  /** Layers that see windows only, and the windows of a frame. */
  readonly windows?: {
    readonly layers: ReadonlySet<number>;
    of(rows: number, columns: number): Windows;
  } | null;
};

/** Rows that frames share where many small ones are faster together. */
const SHARED_ROWS = 4096;

/** On average, where frames share a run: smaller ones take a page each, of which there are not more. */
const ROWS_A_FRAME = 64;

/** Of a tower whose largest frame has so many rows. */
export function towerCapacity({ info }: Device, rows: number): ModelCapacity {
  return { maxTokens: info.hasOwnMemory ? Math.max(rows, SHARED_ROWS) : rows, maxLogitRows: 1 };
}

export function loadTower(plain: Loader, own: TowerConfig, { merge, extraTokens }: VisionSpec, ends: TowerEnds): Tower {
  const { device, capacity } = plain;
  const maxRows = capacity.maxTokens;
  const { loader, config } = withPaddedHeads(...withPaddedInner(plain, own));
  const { hiddenSize, numKvHeads, headDim, angles, turn } = config;
  const isExact = loader.hasExactPages || !device.info.hasOwnMemory || device.info.kvDtype === "f32";
  const dtype = isExact ? "f32" : "f16";
  const { windows = null, ...rest } = ends;
  const maxFrames = device.info.hasOwnMemory ? Math.max(1, Math.floor(maxRows / ROWS_A_FRAME)) : 1;
  const least = windows === null ? Math.floor(maxRows / maxFrames) : 1;
  const spec = {
    pageSize: PAGE_SIZE,
    numLayers: 1,
    numKvHeads,
    keyDim: headDim,
    valueDim: headDim,
    dtype,
  } as const;
  const pool = device.allocKvPool({ ...spec, numPages: numPagesFor(maxRows, least) });
  const segments = (): Segments => new Segments(device, plannerOf(device, config, dtype), maxRows);
  const whole = segments();
  const invFreq = Float32Array.from(angles ?? [], ({ frequency }) => frequency);
  const table =
    angles === null
      ? null
      : device.createRotary({ invFreq, scale: 1, interleaved: turn?.isInterleaved ?? false }, maxRows);
  return new Tower(device, {
    ...rest,
    hiddenSize,
    maxRows,
    maxFrames,
    layers: Array.from({ length: config.numLayers }, (_, i) => loadLayer(loader, config, i, table)),
    rotary: table === null ? null : { table, angles: angles!, firstPlace: turn?.firstPlace ?? 0 },
    layout: {
      block: config.patches.block,
      merge,
      hasFirst: ends.first !== null,
      extraTokens: extraTokens ?? 0,
      windowsOf: windows === null ? null : windows.of,
    },
    pool,
    whole,
    windows: windows === null ? null : { layers: windows.layers, segments: segments() },
  });
}

function plannerOf(device: Device, { numHeads, numKvHeads, headDim }: TowerConfig, kvDtype: KvDtype) {
  const groupSize = numHeads / numKvHeads;
  return device.createPlanner({ group: 0, groupSize, numKvHeads, headDim, window: 0, split: "fixed", kvDtype });
}

/** Heads of the size that the device has kernels for. */
function withPaddedHeads(loader: Loader, config: TowerConfig): { loader: Loader; config: TowerConfig & Padded } {
  const { attention, headDim, names, numLayers, norm } = config;
  const size = paddedHeadDim(loader.device, headDim);
  if (size === headDim) return { loader, config: { ...config, padding: null } };
  const padding = new HeadPadding(headDim, size);
  const changes = new Map<string, TensorChange>();
  for (let i = 0; i < numLayers; i++) {
    const name = `${names.layer(i)}.${names.attention}`;
    for (const part of attention.qkv) {
      changes.set(`${name}.${part}.weight`, padding.outputs);
      changes.set(`${name}.${part}.bias`, padding.outputs);
    }
    changes.set(`${name}.${attention.out}.weight`, padding.inputs);
    for (const part of [attention.qNorm, attention.kNorm]) changes.set(`${name}.${part}.weight`, padding.norm);
  }
  const style = attention.qkNormStyle ?? norm;
  const mapped = loader.mapped(changes);
  const qkNormStyle = { ...style, eps: style.eps * padding.share };
  return { loader: mapped, config: { ...config, headDim: size, attention: { ...attention, qkNormStyle }, padding } };
}

/** What a feed-forward makes in whole steps of the kernels' columns, which is what the next matrix reads: where nothing is unpacked for it. */
function withPaddedInner(loader: Loader, config: TowerConfig): [Loader, TowerConfig] {
  const { innerSize, mlp, names, numLayers } = config;
  const size = paddedCols(loader.device, innerSize);
  const downOf = (i: number): string => `${names.layer(i)}${names.mlp === "" ? "" : `.${names.mlp}`}.`;
  const down = [`${downOf(0)}${mlp.down}.weight`, [config.hiddenSize, innerSize]] as const;
  if (size === innerSize || config.numLayers === 0 || !loader.isPlain(...down)) return [loader, config];
  const padding = new HeadPadding(innerSize, size);
  const changes = new Map<string, TensorChange>();
  for (let i = 0; i < numLayers; i++) {
    for (const part of mlp.gateUp ?? [mlp.up]) {
      changes.set(`${downOf(i)}${part}.weight`, padding.outputs);
      changes.set(`${downOf(i)}${part}.bias`, padding.outputs);
    }
    changes.set(`${downOf(i)}${mlp.down}.weight`, padding.inputs);
  }
  return [loader.mapped(changes), { ...config, innerSize: size }];
}

interface Padded {
  readonly padding: HeadPadding | null;
}

const PLACE = { group: 0, layer: 0, plan: 0 };

function valueNorm(loader: Loader, { headDim, norm, padding }: TowerConfig & Padded): Norm {
  if (padding === null) return plainNorm(loader, headDim, norm);
  const weights = loader.device.loadTensor(new Float32Array(headDim).fill(Math.sqrt(padding.share)), 1, headDim);
  return normOf(loader, weights, { ...norm, eps: norm.eps * padding.share }, headDim);
}

function loadLayer(loader: Loader, config: TowerConfig & Padded, i: number, rotary: RotaryTable | null): Layer[] {
  const { names, norm: style, hiddenSize, numHeads, attentionScale: scale } = config;
  const name = names.layer(i);
  const norm = (part: string | null): Norm | null =>
    part === null ? null : loadNorm(loader, `${name}.${part}`, hiddenSize, style);
  const project = ({ after }: NormNames): Epilogue => (after === null ? ADD : {});
  const weights = loadAttention(
    loader,
    `${name}.${names.attention}`,
    config,
    config.attention,
    style,
    project(names.attentionNorms),
  );
  const vNorm = config.normsValues === true ? valueNorm(loader, config) : null;
  const attention = new SelfAttention(
    loader,
    config,
    { ...weights, vNorm },
    {
      place: PLACE,
      rotary,
      params: { numHeads, scale, softcap: 0, sinks: null },
      isNormedAfterRotary: false,
      queryScale: null,
      keyScale: 1,
    },
  );
  const mlp = loadMlp(
    loader,
    `${name}${names.mlp === "" ? "" : `.${names.mlp}`}`,
    config,
    config.mlp,
    project(names.mlpNorms),
  );
  const half = ({ before, after }: NormNames, block: SelfAttention | typeof mlp): Residual =>
    new Residual(loader, hiddenSize, norm(before), block, norm(after));
  return [half(names.attentionNorms, attention), half(names.mlpNorms, mlp)];
}
