// What preprocessor_config.json says, field by field.

import { FormatError } from "../core/errors.js";
import type { Picture } from "./picture.js";
import { type Arithmetic, type Filter, resize as resample } from "./resample.js";

/** By Pillow's numbers. Where torchvision does the work, processors take bicubic in the place of Lanczos. */
const FILTERS: Readonly<Record<number, Filter>> = { 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming" };

/** Fields of preprocessor_config.json, over the defaults of its kind. */
export class Settings {
  readonly #raw: Readonly<Record<string, unknown>>;
  readonly #file: string;
  readonly #arithmetic: Arithmetic;

  constructor(raw: Readonly<Record<string, unknown>>, file: string, arithmetic: Arithmetic) {
    this.#raw = raw;
    this.#file = file;
    this.#arithmetic = arithmetic;
  }

  bool(name: string): boolean {
    return this.#raw[name] === true;
  }

  int(name: string): number {
    const value = this.#raw[name];
    if (Number.isSafeInteger(value) && (value as number) > 0) return value as number;
    throw this.refuse(name, value, "a whole number above 0");
  }

  number(name: string): number {
    const value = this.#raw[name];
    if (typeof value === "number" && value > 0) return value;
    throw this.refuse(name, value, "a number above 0");
  }

  has(name: string): boolean {
    return (this.#raw[name] ?? null) !== null;
  }

  /** A field of sizes; a number stands for both edges of a square. */
  size(name: string): Readonly<Record<string, number>> {
    const value = this.#raw[name];
    if (typeof value === "number") return { height: value, width: value };
    if (typeof value === "object" && value !== null) return value as Record<string, number>;
    throw this.refuse(name, value, "an object of sizes");
  }

  edge(name: string, edge: string): number {
    const value = this.size(name)[edge];
    if (Number.isSafeInteger(value) && value! > 0) return value!;
    throw this.refuse(`${name}.${edge}`, value, "a whole number above 0");
  }

  resize(picture: Picture, width: number, height: number): Picture {
    const value = this.#raw.resample as number;
    const filter = FILTERS[value];
    if (filter === undefined) throw this.refuse("resample", value, Object.keys(FILTERS).join(", "));
    const isLanczos = filter === "lanczos" && this.#arithmetic === "torchvision";
    return resample(picture, width, height, isLanczos ? "bicubic" : filter, this.#arithmetic);
  }

  get rescaleFactor(): number {
    const value = this.#raw.rescale_factor ?? 1 / 255;
    if (typeof value !== "number") throw this.refuse("rescale_factor", value, "a number");
    return value;
  }

  triple(name: string): readonly number[] {
    const value = this.#raw[name];
    if (Array.isArray(value) && value.length === 3 && value.every((v) => typeof v === "number")) return value;
    throw this.refuse(name, value, "three numbers");
  }

  refuse(param: string, value: unknown, known: string): FormatError {
    return new FormatError("unsupported_model_option", {
      file: this.#file,
      param,
      value: JSON.stringify(value) ?? "missing",
      known,
    });
  }
}
