// What the image processors of Hugging Face do to a picture before a model's tower sees it: which sizes and parts of it become frames, and how
// their pixels are normalised. One function for each kind of processor; preprocessor_config.json says the rest.

import { bf16ToF32, f32ToBf16 } from "../core/dequantize/small-floats.js";
import { errorFor } from "../core/errors.js";
import { crop, type Picture } from "./picture.js";
import { Settings } from "./processor-settings.js";
import { type Cut, cutLfm2, cutLlama4, nearestGrid, round, tiles } from "./tiles.js";

/** What a tower sees at once: the whole picture, or a tile of it. */
export interface Frame {
  readonly width: number;
  readonly height: number;
  readonly pixels: Float32Array; // [3, height, width], normalised
}

export interface PreparedPicture {
  readonly frames: readonly Frame[];
  /** Tiles in rows and columns; the last frame is the whole picture then. 0: the one frame is. */
  readonly tileRows: number;
  readonly tileColumns: number;
  /** Parts of the picture that come after the whole of it (Gemma 3's pan and scan). */
  readonly numCrops: number;
}

export interface Processor {
  prepare(picture: Picture): PreparedPicture;
}

const CLIP = {
  image_mean: [0.48145466, 0.4578275, 0.40821073],
  image_std: [0.26862954, 0.26130258, 0.27577711],
};
const IMAGENET = { image_mean: [0.485, 0.456, 0.406], image_std: [0.229, 0.224, 0.225] };
const HALF = { image_mean: [0.5, 0.5, 0.5], image_std: [0.5, 0.5, 0.5] };
const COMMON = { do_resize: true, do_rescale: true, do_normalize: true, resample: 3 };

interface Kind {
  readonly defaults: Readonly<Record<string, unknown>>;
  /** The pictures that become frames, in order. */
  cut(s: Settings, picture: Picture): Cut;
  /** In which numbers; omitted: f32. */
  readonly normalises?: "bf16";
}

const KINDS: Readonly<Record<string, Kind>> = {
  CLIPImageProcessor: {
    defaults: { ...CLIP, size: { shortest_edge: 224 }, do_center_crop: true, crop_size: { height: 224, width: 224 } },
    cut: cutToCenter,
  },
  LlavaImageProcessor: {
    defaults: { ...CLIP, size: { shortest_edge: 224 }, do_center_crop: true, crop_size: { height: 224, width: 224 } },
    cut: (s, picture) => cutToCenter(s, s.bool("do_pad") ? square(picture, s) : picture),
  },
  SiglipImageProcessor: { defaults: { ...HALF, size: { height: 224, width: 224 } }, cut: cutToCenter },
  PixtralImageProcessor: {
    defaults: { ...CLIP, size: { longest_edge: 1024 }, patch_size: { height: 16, width: 16 } },
    cut: cutPixtral,
  },
  Qwen2VLImageProcessor: {
    defaults: {
      ...CLIP,
      size: { shortest_edge: 56 * 56, longest_edge: 28 * 28 * 1280 },
      patch_size: 14,
      merge_size: 2,
    },
    cut: cutQwen,
  },
  Gemma3ImageProcessor: {
    defaults: {
      ...HALF,
      size: { height: 224, width: 224 },
      resample: 2,
      pan_and_scan_min_crop_size: 256,
      pan_and_scan_max_num_crops: 4,
      pan_and_scan_min_ratio_to_activate: 1.2,
    },
    cut: cutGemma3,
  },
  Gemma4ImageProcessor: {
    defaults: { do_normalize: false, patch_size: 16, max_soft_tokens: 280, pooling_kernel_size: 3 },
    cut: cutGemma4,
  },
  SmolVLMImageProcessor: {
    defaults: {
      ...HALF,
      resample: 1,
      size: { longest_edge: 4 * 364 },
      max_image_size: { longest_edge: 364 },
      do_image_splitting: true,
    },
    cut: cutSmol,
  },
  Lfm2VlImageProcessor: {
    defaults: {
      ...IMAGENET,
      resample: 2,
      do_image_splitting: true,
      use_thumbnail: true,
      min_tiles: 2,
      max_tiles: 10,
      tile_size: 512,
      min_image_tokens: 64,
      max_image_tokens: 256,
      max_pixels_tolerance: 2,
      encoder_patch_size: 16,
      downsample_factor: 2,
    },
    cut: cutLfm2,
  },
  Llama4ImageProcessor: {
    defaults: { ...HALF, resample: 2, size: { height: 336, width: 336 }, max_patches: 16 },
    cut: cutLlama4,
    normalises: "bf16",
  },
  GotOcr2ImageProcessor: {
    defaults: { ...CLIP, size: { height: 384, width: 384 }, min_patches: 1, max_patches: 12 },
    cut: cutTiles,
  },
};

/** Other names of the same. */
const ALIASES: Readonly<Record<string, string>> = {
  CLIPFeatureExtractor: "CLIPImageProcessor",
  Idefics3ImageProcessor: "SmolVLMImageProcessor",
  Qwen3VLImageProcessor: "Qwen2VLImageProcessor",
};

/** The processor that a preprocessor_config.json describes; `file` is named in errors. */
export function openProcessor(raw: Readonly<Record<string, unknown>>, file: string): Processor {
  const type = String(raw.image_processor_type ?? raw.feature_extractor_type ?? "");
  const named = type.replace(/(Fast|Pil)$/, "");
  const kind = KINDS[ALIASES[named] ?? named];
  const given = Object.fromEntries(Object.entries(raw).filter(([, value]) => value !== null));
  const s = new Settings(
    { ...COMMON, ...kind?.defaults, ...given },
    file,
    type.endsWith("Pil") ? "pillow" : "torchvision",
  );
  if (kind === undefined) throw s.refuse("image_processor_type", named, Object.keys(KINDS).join(", "));
  const normalise = normaliser(kind.normalises === "bf16" ? bf16Values(s) : f32Values(s));
  return {
    prepare(picture) {
      const { pictures, tileRows = 0, tileColumns = 0, numCrops = 0 } = kind.cut(s, picture);
      return { frames: pictures.map(normalise), tileRows, tileColumns, numCrops };
    },
  };
}

/** What each of the 256 values that a sample may have becomes, by channel. In f32, in torchvision's order. */
function f32Values(s: Settings): Float32Array[] {
  const f = Math.fround;
  const scale = s.bool("do_rescale") ? s.rescaleFactor : 1;
  const isNormalised = s.bool("do_normalize");
  const shift = isNormalised ? s.triple("image_mean").map((mean) => f(f(mean) * f(1 / scale))) : [0, 0, 0];
  const spread = isNormalised ? s.triple("image_std").map((std) => f(f(std) * f(1 / scale))) : [1, 1, 1];
  return shift.map((m, c) =>
    Float32Array.from({ length: 256 }, (_, x) => (isNormalised ? f(f(x - m) / spread[c]!) : f(x * f(scale)))),
  );
}

/** Each step rounded to bf16. Without one of the two steps nothing is rounded. */
function bf16Values(s: Settings): Float32Array[] {
  if (!s.bool("do_rescale") || !s.bool("do_normalize")) return f32Values(s);
  const b = (x: number): number => bf16ToF32(f32ToBf16(Math.fround(x)));
  const scale = Math.fround(s.rescaleFactor);
  const [means, spreads] = [s.triple("image_mean").map(b), s.triple("image_std").map(b)];
  return means.map((mean, c) => Float32Array.from({ length: 256 }, (_, x) => b(b(b(x * scale) - mean) / spreads[c]!)));
}

function normaliser(values: readonly Float32Array[]): (picture: Picture) => Frame {
  return ({ width, height, data }) => {
    const size = width * height;
    const pixels = new Float32Array(3 * size);
    for (let c = 0; c < 3; c++) for (let i = 0; i < size; i++) pixels[c * size + i] = values[c]![data[3 * i + c]!]!;
    return { width, height, pixels };
  };
}

/** Fixed sizes: both edges, or the shorter one and then the middle of the other. */
function cutToCenter(s: Settings, picture: Picture): { pictures: Picture[] } {
  let result = picture;
  if (s.bool("do_resize")) {
    const size = s.size("size");
    if (size.shortest_edge !== undefined) {
      const edge = s.edge("size", "shortest_edge");
      const { width, height } = picture;
      const long = Math.trunc((edge * Math.max(width, height)) / Math.min(width, height));
      result = width <= height ? s.resize(picture, edge, long) : s.resize(picture, long, edge);
    } else result = s.resize(picture, s.edge("size", "width"), s.edge("size", "height"));
  }
  if (!s.bool("do_center_crop")) return { pictures: [result] };
  const width = s.edge("crop_size", "width");
  const height = s.edge("crop_size", "height");
  // What is too small is padded first, with the odd pixel on the far side; what is too large is cut, with the odd pixel there too.
  const offset = (from: number, to: number): number =>
    to > from ? -Math.floor((to - from) / 2) : Math.trunc((from - to) / 2);
  return { pictures: [crop(result, offset(result.width, width), offset(result.height, height), width, height)] };
}

/** One size; a long picture with pan and scan: as a whole, then its parts along the longer edge. */
function cutGemma3(s: Settings, picture: Picture): { pictures: Picture[]; numCrops?: number } {
  if (!s.bool("do_pan_and_scan")) return cutToCenter(s, picture);
  const crops = panAndScan(s, picture);
  const pictures = [picture, ...crops].map((part) => s.resize(part, s.edge("size", "width"), s.edge("size", "height")));
  return { pictures, numCrops: crops.length };
}

function panAndScan(s: Settings, picture: Picture): Picture[] {
  const { width, height } = picture;
  const least = s.int("pan_and_scan_min_crop_size");
  const [long, short] = [Math.max(width, height), Math.min(width, height)];
  if (long / short < s.number("pan_and_scan_min_ratio_to_activate")) return [];
  const wanted = Math.min(Math.floor(long / least), Math.floor(long / short + 0.5));
  const count = Math.min(s.int("pan_and_scan_max_num_crops"), Math.max(2, wanted));
  const edge = Math.ceil(long / count);
  if (Math.min(edge, short) < least) return [];
  return Array.from({ length: count }, (_, i) => {
    const part = Math.min(edge, long - i * edge); // the last one may be shorter
    return width >= height ? crop(picture, i * edge, 0, part, height) : crop(picture, 0, i * edge, width, part);
  });
}

/** The picture in the middle of a square, on the mean colour. */
function square(picture: Picture, s: Settings): Picture {
  const { width, height } = picture;
  if (width === height) return picture;
  const edge = Math.max(width, height);
  const left = Math.floor((edge - width) / 2);
  const top = Math.floor((edge - height) / 2);
  const { data } = crop(picture, -left, -top, edge, edge);
  const colour = s.triple("image_mean").map((mean) => Math.trunc(mean * 255));
  for (let y = 0; y < edge; y++) {
    for (let x = 0; x < edge; x++) {
      const isInside = x >= left && x < left + width && y >= top && y < top + height;
      if (!isInside) data.set(colour, (y * edge + x) * 3);
    }
  }
  return { width: edge, height: edge, data };
}

/** Within the longest edge, in whole patches. */
function cutPixtral(s: Settings, picture: Picture): { pictures: Picture[] } {
  const size = s.size("size");
  const bound = (edge: string): number => s.edge("size", size.longest_edge === undefined ? edge : "longest_edge");
  const ratio = Math.max(picture.height / bound("height"), picture.width / bound("width"));
  const fitted = (edge: number, patch: number): number =>
    (Math.floor(((ratio > 1 ? Math.floor(edge / ratio) : edge) - 1) / patch) + 1) * patch;
  const width = fitted(picture.width, s.edge("patch_size", "width"));
  const height = fitted(picture.height, s.edge("patch_size", "height"));
  return { pictures: [s.bool("do_resize") ? s.resize(picture, width, height) : picture] };
}

/** In whole merged patches, with a number of pixels between two bounds. */
function cutQwen(s: Settings, picture: Picture): { pictures: Picture[] } {
  if (!s.bool("do_resize")) return { pictures: [picture] };
  const factor = s.int("patch_size") * s.int("merge_size");
  const least = s.has("min_pixels") ? s.int("min_pixels") : s.edge("size", "shortest_edge");
  const most = s.has("max_pixels") ? s.int("max_pixels") : s.edge("size", "longest_edge");
  const { width, height } = picture;
  const aspect = Math.max(width, height) / Math.min(width, height);
  if (aspect > 200) throw errorFor("image_unsupported", { reason: `one edge is ${aspect.toFixed(0)} times the other` });
  let [h, w] = [round(height / factor) * factor, round(width / factor) * factor];
  if (h * w > most) {
    const beta = Math.sqrt((height * width) / most);
    h = Math.max(factor, Math.floor(height / beta / factor) * factor);
    w = Math.max(factor, Math.floor(width / beta / factor) * factor);
  } else if (h * w < least) {
    const beta = Math.sqrt(least / (height * width));
    h = Math.ceil((height * beta) / factor) * factor;
    w = Math.ceil((width * beta) / factor) * factor;
  }
  return { pictures: [s.resize(picture, w, h)] };
}

/** As large as a number of tokens allows, in whole pooled patches. */
function cutGemma4(s: Settings, { width, height, data }: Picture): { pictures: Picture[] } {
  const side = s.int("pooling_kernel_size") * s.int("patch_size");
  const maxTokens = s.int("max_soft_tokens");
  const factor = Math.sqrt((maxTokens * side * side) / (height * width));
  let h = Math.floor((factor * height) / side) * side;
  let w = Math.floor((factor * width) / side) * side;
  const longest = maxTokens * side;
  if (h === 0 && w === 0) throw errorFor("image_unsupported", { reason: "it is too narrow" });
  if (h === 0) [h, w] = [side, Math.min(Math.floor(width / height) * side, longest)];
  else if (w === 0) [h, w] = [Math.min(Math.floor(height / width) * side, longest), side];
  if (h * w > maxTokens * side * side) throw errorFor("image_unsupported", { reason: "it is too narrow" });
  return { pictures: [s.resize({ width, height, data }, w, h)] };
}

/** The longest edge as stated, then either tiles of the tower's size and the whole picture, or that alone. */
function cutSmol(s: Settings, picture: Picture): { pictures: Picture[]; tileRows?: number; tileColumns?: number } {
  const tile = s.edge("max_image_size", "longest_edge");
  let result = picture;
  if (s.bool("do_resize")) {
    const [width, height] = smolSize(picture, s.edge("size", "longest_edge"));
    result = s.resize(result, width, height);
  }
  if (!s.bool("do_image_splitting")) return { pictures: [s.resize(result, tile, tile)] };
  const whole = (edge: number): number => Math.ceil(edge / tile) * tile;
  const aspect = result.width / result.height;
  let { width, height } = result;
  if (width >= height) {
    width = whole(width);
    height = whole(Math.trunc(width / aspect));
  } else {
    height = whole(height);
    width = whole(Math.trunc(height * aspect));
  }
  result = s.resize(result, width, height);
  if (width <= tile && height <= tile) return { pictures: [result] };
  const [tileRows, tileColumns] = [height / tile, width / tile];
  return { pictures: [...tiles(result, tile, tile), s.resize(result, tile, tile)], tileRows, tileColumns };
}

const SMOL_LONGEST = 4096;

/** Width and height with the longer edge as stated, the other even. */
function smolSize({ width, height }: Picture, longest: number): [number, number] {
  const aspect = width / height;
  const even = (edge: number): number => Math.max(edge + (edge % 2), 1);
  const [w, h] =
    width >= height ? [longest, even(Math.trunc(longest / aspect))] : [even(Math.trunc(longest * aspect)), longest];
  const ratio = w / h;
  if (w >= h && w > SMOL_LONGEST) return [SMOL_LONGEST, Math.max(Math.trunc(SMOL_LONGEST / ratio), 1)];
  if (h > w && h > SMOL_LONGEST) return [Math.max(Math.trunc(SMOL_LONGEST * ratio), 1), SMOL_LONGEST];
  return [w, h];
}

/** The tower's size; or tiles of it in the grid whose shape is nearest to the picture's, and the whole picture. */
function cutTiles(s: Settings, picture: Picture): { pictures: Picture[]; tileRows?: number; tileColumns?: number } {
  const width = s.edge("size", "width");
  const height = s.edge("size", "height");
  const all = s.resize(picture, width, height);
  if (!s.bool("crop_to_patches")) return { pictures: [all] };
  const [tileColumns, tileRows] = nearestGrid(picture, width, height, s.int("min_patches"), s.int("max_patches"));
  if (tileColumns * tileRows === 1) return { pictures: [all] };
  const large = s.resize(picture, width * tileColumns, height * tileRows);
  return { pictures: [...tiles(large, width, height), all], tileRows, tileColumns };
}
