// What the text of a prompt says in the place of a picture: chat templates write one placeholder, which the processors of Hugging Face expand
// into as many tokens as the picture has, with the family's markers around and between them.

import { FormatError } from "../core/errors.js";

/** A picture as a prompt's text has it. */
export interface PictureShape {
  /** Tokens of each frame, in rows and columns. */
  readonly grids: readonly { readonly rows: number; readonly columns: number }[];
  /** Of its tiles; 0: there are none. */
  readonly tileRows: number;
  readonly tileColumns: number;
  /** Parts of it that come after the whole. */
  readonly numCrops: number;
}

export interface PlaceholderRule {
  /** What the template writes for a picture. */
  readonly placeholder: string;
  expand(picture: PictureShape): string;
}

export interface PlaceholderSource {
  /** config.json, and what errors call it. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly configFile: string;
  /** The id of a picture's tokens. */
  readonly imageToken: number;
  tokenOf(id: number): string | null;
}

/** How pictures stand in prompts of this architecture. */
export function placeholderRule(architecture: string, source: PlaceholderSource): PlaceholderRule {
  const { config, configFile, imageToken } = source;
  const token = (id: number, param: string): string => {
    const text = source.tokenOf(id);
    if (text !== null) return text;
    const known = "the id of a token";
    throw new FormatError("unsupported_model_option", { file: configFile, param, value: String(id), known });
  };
  const image = token(imageToken, "image_token_id");
  const numTokens = ({ grids }: PictureShape): number =>
    grids.reduce((sum, { rows, columns }) => sum + rows * columns, 0);
  const id = (...names: string[]): number | null => {
    const value = names.map((name) => config[name]).find((given) => typeof given === "number");
    return value === undefined ? null : (value as number);
  };
  /** A marker by its id in the config, else by the name that its family gives it. */
  const marker = (given: number | null, name: string, param: string): string =>
    given === null ? name : token(given, param);
  const vision = (config.vision_config ?? {}) as Record<string, unknown>;

  switch (architecture) {
    case "Gemma3ForConditionalGeneration": {
      const begin = marker(id("boi_token_index", "boi_token_id"), "<start_of_image>", "boi_token_index");
      const end = marker(id("eoi_token_index", "eoi_token_id"), "<end_of_image>", "eoi_token_index");
      const shown = ({ rows, columns }: PictureShape["grids"][number]): string =>
        `\n\n${begin}${image.repeat(rows * columns)}${end}\n\n`;
      return { placeholder: begin, expand: (picture) => withCrops(picture, shown) };
    }
    case "Gemma4ForConditionalGeneration": {
      const begin = marker(id("boi_token_id", "boi_token_index"), "<|image>", "boi_token_id");
      const end = marker(id("eoi_token_id", "eoi_token_index"), "<image|>", "eoi_token_id");
      return { placeholder: image, expand: (picture) => `${begin}${image.repeat(numTokens(picture))}${end}` };
    }
    case "InternVLForConditionalGeneration":
      return { placeholder: image, expand: (picture) => `<img>${image.repeat(numTokens(picture))}</img>` };
    case "SmolVLMForConditionalGeneration":
    case "Idefics3ForConditionalGeneration":
      return { placeholder: image, expand: (picture) => tiled(picture, image) };
    case "Lfm2VlForConditionalGeneration":
      return { placeholder: image, expand: (picture) => marked(picture, image) };
    case "Llama4ForConditionalGeneration":
      return { placeholder: "<|image|>", expand: (picture) => separated(picture, image) };
    case "Mistral3ForConditionalGeneration":
      return { placeholder: image, expand: (picture) => inLines(picture, image) };
    case "LlavaForConditionalGeneration":
      if (vision.model_type === "pixtral") return { placeholder: image, expand: (picture) => inLines(picture, image) };
  }
  return { placeholder: image, expand: (picture) => image.repeat(numTokens(picture)) };
}

/** A marker ends each row of tokens, another one the last. */
function inLines({ grids }: PictureShape, image: string): string {
  const lines = grids.flatMap(({ rows, columns }) => Array.from({ length: rows }, () => image.repeat(columns)));
  return `${lines.join("[IMG_BREAK]")}[IMG_END]`;
}

/** As Gemma 3 is told of a picture and parts of it (pan and scan). */
function withCrops({ grids, numCrops }: PictureShape, shown: (grid: PictureShape["grids"][number]) => string): string {
  const [whole, ...crops] = grids.map(shown);
  if (numCrops === 0) return whole!;
  return `Here is the original image ${whole} and here are some crops to help you see better ${crops.join(" ")}`;
}

/** LFM2-VL's: tiles say where they are, the whole that it is a small one. */
function marked({ grids, tileRows, tileColumns }: PictureShape, image: string): string {
  const numTiles = tileRows * tileColumns;
  const text = grids.map(({ rows, columns }, frame) => {
    const place = `<|img_row_${Math.floor(frame / tileColumns) + 1}_col_${(frame % tileColumns) + 1}|>`;
    return `${numTiles === 0 ? "" : frame < numTiles ? place : "<|img_thumbnail|>"}${image.repeat(rows * columns)}`;
  });
  return `<|image_start|>${text.join("")}<|image_end|>`;
}

/** Llama 4's: marks between the tiles of a row, and behind each row. */
function separated({ grids, tileRows, tileColumns }: PictureShape, image: string): string {
  const tokens = (frame: number): string => image.repeat(grids[frame]!.rows * grids[frame]!.columns);
  let text = "";
  for (let row = 0; row < tileRows; row++) {
    const tiles = Array.from({ length: tileColumns }, (_, column) => tokens(row * tileColumns + column));
    text += `${tiles.join("<|tile_x_separator|>")}<|tile_y_separator|>`;
  }
  return `<|image_start|>${text}<|image|>${tokens(grids.length - 1)}<|image_end|>`;
}

/** Each tile says where it is; the whole picture comes last. */
function tiled({ grids, tileRows, tileColumns }: PictureShape, image: string): string {
  const around = "<fake_token_around_image>";
  const tokens = (frame: number): string => image.repeat(grids[frame]!.rows * grids[frame]!.columns);
  let text = "";
  for (let row = 0; row < tileRows; row++) {
    for (let column = 0; column < tileColumns; column++)
      text += `${around}<row_${row + 1}_col_${column + 1}>${tokens(row * tileColumns + column)}`;
    text += "\n";
  }
  return `${text}${tileRows > 0 ? "\n" : ""}${around}<global-img>${tokens(grids.length - 1)}${around}`;
}
