// How many packed query rows share one pass over the keys.

/**
 * The tile for an average packed length (queryLen * G). Long rows get tall tiles, so that a key read once serves many queries; a
 * decode row gets the smallest, so that little of the tile is empty. Wide heads leave less room for a tile's accumulators.
 */
export function chooseQTile(avgPackedLen: number, headDim: number): number {
  if (headDim >= 512) return avgPackedLen > 16 ? 32 : 16;
  if (avgPackedLen > 64 && headDim < 256) return 128;
  return avgPackedLen > 16 ? 64 : 16;
}
