// Where a key or value lies in the page pool. Layout [page, layer, K|V, kvHead, slotInPage, dim]: a page is one contiguous
// block of all layers; within a layer all keys come first, then all values, so that Dv may differ from D. A latent pool stores no
// values: a value is the first Dv numbers of its key.

import type { KvPoolSpec } from "./device.js";

/** Strides in elements; a key is at page*page + layer*layer + kvHead*keyHead + slotInPage*D. */
export interface KvLayout {
  readonly page: number;
  readonly layer: number;
  /** From a layer's start to its values. */
  readonly values: number;
  readonly keyHead: number;
  readonly valueHead: number;
  readonly keySlot: number;
  readonly valueSlot: number;
}

export function kvLayout(spec: Omit<KvPoolSpec, "numPages" | "dtype">): KvLayout {
  const { pageSize, numLayers, numKvHeads, keyDim, valueDim } = spec;
  const keyHead = pageSize * keyDim;
  if (spec.isLatent) {
    const layer = numKvHeads * keyHead;
    return {
      page: numLayers * layer,
      layer,
      values: 0,
      keyHead,
      valueHead: keyHead,
      keySlot: keyDim,
      valueSlot: keyDim,
    };
  }
  const valueHead = pageSize * valueDim;
  const layer = numKvHeads * (keyHead + valueHead);
  return {
    page: numLayers * layer,
    layer,
    values: numKvHeads * keyHead,
    keyHead,
    valueHead,
    keySlot: keyDim,
    valueSlot: valueDim,
  };
}

/** Element offset of the first dim of a key. */
export function keyOffset(layout: KvLayout, page: number, layer: number, kvHead: number, slotInPage: number): number {
  return page * layout.page + layer * layout.layer + kvHead * layout.keyHead + slotInPage * layout.keySlot;
}

/** Element offset of the first dim of a value. */
export function valueOffset(layout: KvLayout, page: number, layer: number, kvHead: number, slotInPage: number): number {
  return (
    page * layout.page +
    layer * layout.layer +
    layout.values +
    kvHead * layout.valueHead +
    slotInPage * layout.valueSlot
  );
}
