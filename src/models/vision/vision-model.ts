// What the engine knows of a model's eyes: how pictures become tokens, and an encoder that gives the rows which stand for their embeddings.

import type { PatchLayout, TokenGrid } from "../../vision/patches.js";
import type { Frame } from "../../vision/processor.js";
import type { LoadContext } from "../model.js";

export interface VisionSpec {
  /** The id that stands in a prompt for each token of a picture. */
  readonly imageToken: number;
  readonly patches: PatchLayout;
  /** Edge of the block of patches that become one token. */
  readonly merge: number;
  /** Tokens of a picture see each other, also those after them. */
  readonly isWhole: boolean;
  /** The text model turns tokens of a picture by their place in the grid. */
  readonly hasGrid: boolean;
  /** Rows of a token: its embedding, and what is added to it after each of the first layers. */
  readonly numRows: number;
  /** Most tokens of a frame, as the tower's positions allow; null: any. */
  readonly maxTokens: number | null;
  /** Tokens beside those of the grid: 1, a token of no patch comes first; -1, the first patch is left out. Omitted: none. */
  readonly extraTokens?: 1 | -1;
  /** The one size of frames, in patches; null: any. */
  readonly side: number | null;
}

export interface EncodedFrame {
  readonly rows: Float32Array; // [numRows, tokens, hidden]
  readonly grid: TokenGrid;
}

/** Asked between layers: what to wait for before the next one; null: nothing. Lets steps of text go between them. */
export type Pause = () => Promise<void> | null;

export const NO_PAUSE: Pause = () => null;

/** Pictures become rows. */
export interface Eyes {
  readonly spec: VisionSpec;
  /** Throws where a frame cannot be encoded. */
  check(frame: Frame): void;
  /** These frames go through the tower together. */
  fits(frames: readonly Frame[]): boolean;
  /** A frame's rows are the same bits whichever frames come with it. One call at a time. */
  encode(frames: readonly Frame[], pause?: Pause): Promise<EncodedFrame[]>;
}

export interface EyesCapacity {
  /** Most tokens of a frame: sizes the activations, once. */
  readonly maxTokens: number;
}

/** The eyes of models of one architecture. */
export interface VisionFamily<Config = unknown> {
  parseConfig(raw: Record<string, unknown>, file: string): Config;
  specOf(config: Config): VisionSpec;
  load(config: Config, context: Omit<LoadContext, "capacity">, capacity: EyesCapacity): Eyes;
  /** Tensors of the tower and what follows it, and those among them that are not needed. */
  readonly tensors: RegExp;
  ignoredTensors?(config: Config): readonly RegExp[];
}

export { tokenGrid } from "../../vision/patches.js";
