// How much of a picture a model is to look at: the settings of its processor for OpenAI's `detail: low`, and for all else, within what the tower can
// take at once.

type Settings = Readonly<Record<string, unknown>>;

export interface DetailBounds {
  readonly architecture: string;
  /** Most tokens of a frame. */
  readonly maxFrameTokens: number;
}

/** What a picture in low detail is brought to where a model takes any size: the longer edge, or as many pixels as its square. */
const LOW_EDGE = 512;
const LOW_SOFT_TOKENS = 70;

/** `raw`: preprocessor_config.json. */
export function detailSettings(raw: Settings, bounds: DetailBounds): { low: Settings; full: Settings } {
  const kind = String(raw.image_processor_type ?? raw.feature_extractor_type ?? "").replace(/(Fast|Pil)$/, "");
  switch (kind) {
    case "Qwen2VLImageProcessor":
    case "Qwen3VLImageProcessor": {
      const unit = (number(raw.patch_size) ?? 14) * (number(raw.merge_size) ?? 2);
      const most = bounds.maxFrameTokens * unit ** 2;
      return { low: withPixels(raw, Math.min(most, LOW_EDGE ** 2)), full: withPixels(raw, most) };
    }
    case "PixtralImageProcessor": {
      const patch = Math.max(edgeOf(raw.patch_size, "height") ?? 16, edgeOf(raw.patch_size, "width") ?? 16);
      const most = Math.floor(Math.sqrt(bounds.maxFrameTokens)) * patch;
      return { low: withEdge(raw, Math.min(most, LOW_EDGE)), full: withEdge(raw, most) };
    }
    case "Gemma4ImageProcessor": {
      const tokens = Math.min(number(raw.max_soft_tokens) ?? 280, bounds.maxFrameTokens);
      const full = { ...raw, max_soft_tokens: tokens };
      return { low: { ...full, max_soft_tokens: Math.min(tokens, LOW_SOFT_TOKENS) }, full };
    }
    case "SmolVLMImageProcessor":
    case "Idefics3ImageProcessor":
    case "Lfm2VlImageProcessor":
      return { low: { ...raw, do_image_splitting: false }, full: raw };
    case "Llama4ImageProcessor":
      return { low: { ...raw, max_patches: 1 }, full: raw };
    case "GotOcr2ImageProcessor":
      // InternVL's processor cuts pictures into tiles whatever the file says.
      return bounds.architecture === "InternVLForConditionalGeneration"
        ? { low: { ...raw, crop_to_patches: false }, full: { ...raw, crop_to_patches: true } }
        : { low: { ...raw, crop_to_patches: false }, full: raw };
  }
  return { low: raw, full: raw };
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

function edgeOf(size: unknown, edge: string): number | null {
  return number(size) ?? number((size as Settings | null | undefined)?.[edge]);
}

/** At most so many pixels. */
function withPixels(raw: Settings, most: number): Settings {
  const longest = number(raw.max_pixels) ?? edgeOf(raw.size, "longest_edge") ?? 28 * 28 * 1280;
  const shortest = number(raw.min_pixels) ?? edgeOf(raw.size, "shortest_edge") ?? 56 * 56;
  const max = Math.min(longest, most);
  return { ...raw, max_pixels: max, min_pixels: Math.min(shortest, max) };
}

function withEdge(raw: Settings, most: number): Settings {
  const longest = edgeOf(raw.size, "longest_edge") ?? 1024;
  return { ...raw, size: { longest_edge: Math.min(longest, most) } };
}
