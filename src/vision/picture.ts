// A picture as processors take it: 8 bits of red, green and blue for each pixel, row by row from the top.

export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array; // [height, width, 3]
}

/** The part of a picture from (left, top) on; what lies outside of it is black. */
export function crop(picture: Picture, left: number, top: number, width: number, height: number): Picture {
  const data = new Uint8Array(width * height * 3);
  const first = Math.max(left, 0);
  const end = Math.min(left + width, picture.width);
  for (let y = Math.max(top, 0); y < Math.min(top + height, picture.height) && first < end; y++) {
    const row = picture.data.subarray((y * picture.width + first) * 3, (y * picture.width + end) * 3);
    data.set(row, ((y - top) * width + first - left) * 3);
  }
  return { width, height, data };
}

/** From red, green, blue and opacity, laid on white. */
export function onWhite(rgba: ArrayLike<number>, width: number, height: number): Picture {
  const data = new Uint8Array(width * height * 3);
  for (let i = 0; i < width * height; i++) {
    const alpha = rgba[4 * i + 3]!;
    for (let c = 0; c < 3; c++) {
      // (x * alpha + 255 * (255 - alpha)) / 255, rounded as Pillow rounds.
      const sum = rgba[4 * i + c]! * alpha + 255 * (255 - alpha) + 128;
      data[3 * i + c] = (sum + (sum >> 8)) >> 8;
    }
  }
  return { width, height, data };
}

/** Turned as the EXIF orientation (1 to 8) says. */
export function turned(picture: Picture, orientation: number): Picture {
  if (orientation <= 1 || orientation > 8) return picture;
  const { width, height, data } = picture;
  const isOnItsSide = orientation >= 5;
  const [outWidth, outHeight] = isOnItsSide ? [height, width] : [width, height];
  const out = new Uint8Array(data.length);
  for (let y = 0; y < outHeight; y++) {
    for (let x = 0; x < outWidth; x++) {
      const [u, v] = isOnItsSide ? [y, x] : [x, y];
      const fromX = [2, 3, 7, 8].includes(orientation) ? width - 1 - u : u;
      const fromY = [3, 4, 6, 7].includes(orientation) ? height - 1 - v : v;
      const from = (fromY * width + fromX) * 3;
      const to = (y * outWidth + x) * 3;
      out[to] = data[from]!;
      out[to + 1] = data[from + 1]!;
      out[to + 2] = data[from + 2]!;
    }
  }
  return { width: outWidth, height: outHeight, data: out };
}
