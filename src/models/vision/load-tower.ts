// Loads a tower from what its family says of it.

import type { Activation, Device, RotaryTable } from "../../device/device.js";
import { reshaped } from "../../formats/tensor-views.js";
import type { PatchLayout } from "../../vision/patches.js";
import { type AttentionSettings, loadAttention, SelfAttention } from "../blocks/attention.js";
import { ADD, type Epilogue } from "../blocks/block.js";
import { Linear } from "../blocks/linear.js";
import { loadMlp, type MlpNaming } from "../blocks/mlp.js";
import { loadNorm, type Norm, type NormStyle, plainNorm } from "../blocks/norm.js";
import { type Layer, Residual } from "../blocks/residual.js";
import type { NormNames } from "../decoder.js";
import type { Loader } from "../loader.js";
import { numPagesFor, PAGE_SIZE, Segments } from "./segments.js";
import { type Angle, Tower, type TowerParts } from "./tower.js";

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
}

/** The matrix of patches, in whatever shape the checkpoint has it: [hidden, patch]. */
export function loadPatchLinear(loader: Loader, name: string, shape: readonly number[], bias: string | null): Linear {
  const [rows, ...rest] = shape as [number, ...number[]];
  const cols = rest.reduce((product, size) => product * size, 1);
  const weight = loader.matrixOf([reshaped(loader.host(name, shape), name, [rows, cols])], { quantize: "none" });
  return new Linear(loader.device, weight, bias === null ? null : loader.vector(bias, rows));
}

/** What a family adds of its own. */
export type TowerEnds = Pick<
  TowerParts,
  "patch" | "first" | "givesFirst" | "positionsOf" | "before" | "after" | "kept"
> & {
  readonly windows?: Pick<NonNullable<TowerParts["windows"]>, "layers" | "of"> | null;
};

export function loadTower(loader: Loader, config: TowerConfig, ends: TowerEnds): { tower: Tower; whole: Segments } {
  const { device, capacity } = loader;
  const maxPatches = capacity.maxTokens;
  const { hiddenSize, numKvHeads, headDim, angles } = config;
  const { windows = null, ...rest } = ends;
  const spec = {
    pageSize: PAGE_SIZE,
    numLayers: 1,
    numKvHeads,
    keyDim: headDim,
    valueDim: headDim,
    dtype: "f32",
  } as const;
  const pool = device.allocKvPool({ ...spec, numPages: numPagesFor(maxPatches, windows === null ? maxPatches : 1) });
  const segments = (): Segments => new Segments(device, plannerOf(device, config), maxPatches);
  const whole = segments();
  const invFreq = Float32Array.from(angles ?? [], ({ frequency }) => frequency);
  const table = angles === null ? null : device.createRotary({ invFreq, scale: 1, interleaved: false }, maxPatches);
  const tower = new Tower(device, {
    ...rest,
    hiddenSize,
    maxPatches,
    layers: Array.from({ length: config.numLayers }, (_, i) => loadLayer(loader, config, i, table)),
    rotary: table === null ? null : { table, angles: angles! },
    block: config.patches.block,
    pool,
    whole,
    windows: windows === null ? null : { ...windows, segments: segments() },
  });
  return { tower, whole };
}

function plannerOf(device: Device, { numHeads, numKvHeads, headDim }: TowerConfig) {
  const groupSize = numHeads / numKvHeads;
  return device.createPlanner({ group: 0, groupSize, numKvHeads, headDim, window: 0, split: "fixed", kvDtype: "f32" });
}

const PLACE = { group: 0, layer: 0, plan: 0 };

function loadLayer(loader: Loader, config: TowerConfig, i: number, rotary: RotaryTable | null): Layer[] {
  const { names, norm: style, hiddenSize, numHeads, headDim, attentionScale: scale } = config;
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
  const vNorm = config.normsValues === true ? plainNorm(loader, headDim, style) : null;
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
