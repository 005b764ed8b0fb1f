// JPEG and WebP by @jsquash's builds of libjpeg and libwebp: Pillow's pixels, bit for bit. Compiled when the first such picture comes.

import { readFileSync } from "node:fs";
import { errorFor } from "../core/errors.js";

export interface RgbaPixels {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8ClampedArray; // [height, width, 4]
}

type WasmFormat = "JPEG" | "WebP";
type Decode = (bytes: Uint8Array) => RgbaPixels;

/** The Emscripten module that a package's factory gives. */
interface Codec {
  decode(bytes: Uint8Array, ...options: boolean[]): RgbaPixels | null;
}

interface CodecOptions {
  readonly noInitialRun: boolean;
  readonly printErr: (line: string) => void;
  readonly instantiateWasm?: (imports: object, done: (instance: object) => void) => object;
}

interface CodecPackage {
  readonly name: string;
  readonly wasm: string;
  /** What decode() takes after the bytes. */
  readonly options: readonly boolean[];
  load(): Promise<unknown>;
}

const PACKAGES: Readonly<Record<WasmFormat, CodecPackage>> = {
  JPEG: {
    name: "@jsquash/jpeg",
    wasm: "@jsquash/jpeg/codec/dec/mozjpeg_dec.wasm",
    options: [false], // not turned as its EXIF says
    load: () => import("@jsquash/jpeg/codec/dec/mozjpeg_dec.js"),
  },
  WebP: {
    name: "@jsquash/webp",
    wasm: "@jsquash/webp/codec/dec/webp_dec.wasm",
    options: [],
    load: () => import("@jsquash/webp/codec/dec/webp_dec.js"),
  },
};

const decoders = new Map<WasmFormat, Promise<Decode>>();

export function wasmDecoder(format: WasmFormat): Promise<Decode> {
  const known = decoders.get(format);
  if (known !== undefined) return known;
  const opening = openDecoder(format);
  decoders.set(format, opening);
  opening.catch(() => decoders.delete(format));
  return opening;
}

async function openDecoder(format: WasmFormat): Promise<Decode> {
  const { name, wasm, load } = PACKAGES[format];
  let complaint = "";
  const options: CodecOptions = {
    noInitialRun: true,
    printErr: (line) => {
      complaint = line;
    },
  };
  let codec: Codec;
  try {
    const { default: create } = (await load()) as { default: (options: CodecOptions) => Promise<Codec> };
    codec = await create(isNode ? { ...options, instantiateWasm: await instantiator(wasm) } : options);
  } catch (error) {
    const reason = `${format} files need the package ${name}, which is not installed; add it, or send a PNG`;
    throw errorFor("image_unsupported", { reason }, { cause: error });
  }
  return (bytes) => {
    complaint = "";
    let pixels: RgbaPixels | null = null;
    try {
      pixels = codec.decode(bytes, ...PACKAGES[format].options);
    } catch {
      decoders.delete(format); // what failed half way is not used again
    }
    if (pixels !== null && complaint === "") return pixels;
    throw errorFor("image_corrupt", { format, reason: complaint === "" ? "its pixels cannot be read" : complaint });
  };
}

const isNode = typeof process === "object" && process.versions?.node !== undefined;

/** From the file: Node cannot fetch it, as the package would. */
async function instantiator(wasm: string): Promise<NonNullable<CodecOptions["instantiateWasm"]>> {
  const module = await WebAssembly.compile(readFileSync(new URL(import.meta.resolve(wasm))));
  return (imports, done) => {
    const instance = new WebAssembly.Instance(module, imports);
    done(instance);
    return instance.exports;
  };
}
