// A picture that has been prepared, as callers hold it. Types alone: the page reads them too.

import type { PictureFrame } from "../../../core/media.js";

/** How much of a picture is looked at: "low" costs few tokens; "auto" and "high" are the model's own. */
export type ImageDetail = "low" | "high" | "auto";

/** A picture, prepared for one model. */
export interface SeenPicture {
  readonly type: "seen";
  /** 128 bits that name its bytes and how it was prepared. */
  readonly id: Int32Array; // [4]
  readonly frames: readonly PictureFrame[];
  /** Tiles in rows and columns, before the whole picture; 0: there are none. */
  readonly tileRows: number;
  readonly tileColumns: number;
  /** Parts of the picture, after the whole. */
  readonly numCrops: number;
}
