// Typed reading of a raw config.json. What a family relies on is checked here; what it cannot honour is refused by name.

import { FormatError } from "../core/errors.js";
import type { Activation } from "../device/device.js";

/** Names found in hidden_act and its kin. */
const ACTIVATIONS: Readonly<Record<string, Activation>> = {
  silu: "silu",
  swish: "silu",
  gelu: "gelu",
  gelu_python: "gelu",
  gelu_new: "gelu_tanh",
  gelu_fast: "gelu_tanh",
  gelu_pytorch_tanh: "gelu_tanh",
  relu: "relu",
  relu2: "relu2",
};

/** Layers make arrays and names; no model has nearly as many. */
export const MAX_LAYERS = 10_000;

export class ConfigReader {
  readonly raw: Record<string, unknown>;
  readonly file: string;

  constructor(raw: Record<string, unknown>, file: string) {
    this.raw = raw;
    this.file = file;
  }

  /** Absent and null are the same. */
  has(name: string): boolean {
    return this.raw[name] !== undefined && this.raw[name] !== null;
  }

  /** A whole number from 1 to `most`: sizes are believed before tensors are seen, so an absurd one must not reach an allocation. */
  int(name: string, absent?: number, most = 2 ** 24): number {
    const value = this.#get(name, absent);
    if (!Number.isSafeInteger(value) || (value as number) <= 0 || (value as number) > most) {
      throw this.refuse(name, value, `a whole number from 1 to ${most}`);
    }
    return value as number;
  }

  /** A whole number, zero included. */
  count(name: string, absent?: number): number {
    const value = this.#get(name, absent);
    if (!Number.isSafeInteger(value) || (value as number) < 0)
      throw this.refuse(name, value, "a whole number, 0 or more");
    return value as number;
  }

  number(name: string, absent?: number): number {
    const value = this.#get(name, absent);
    if (typeof value !== "number" || !Number.isFinite(value)) throw this.refuse(name, value, "a number");
    return value;
  }

  bool(name: string, absent?: boolean): boolean {
    const value = this.#get(name, absent);
    if (typeof value !== "boolean") throw this.refuse(name, value, "true or false");
    return value;
  }

  ints(name: string): readonly number[] {
    const value = this.raw[name];
    if (!Array.isArray(value) || !value.every((n) => Number.isSafeInteger(n))) {
      throw this.refuse(name, value, "a list of whole numbers");
    }
    return value;
  }

  strings(name: string): readonly string[] {
    const value = this.raw[name];
    if (!Array.isArray(value) || !value.every((s) => typeof s === "string")) {
      throw this.refuse(name, value, "a list of names");
    }
    return value;
  }

  activation(name: string, absent?: string): Activation {
    const value = this.#get(name, absent);
    const known = Object.keys(ACTIVATIONS);
    if (typeof value !== "string" || !known.includes(value)) throw this.refuse(name, value, known.join(", "));
    return ACTIVATIONS[value]!;
  }

  /** The activation of experts, of which devices have fewer. */
  gatedActivation(name: string, absent?: string): "silu" | "gelu_tanh" {
    const activation = this.activation(name, absent);
    if (activation === "silu" || activation === "gelu_tanh") return activation;
    throw this.refuse(name, this.raw[name], "silu, gelu_pytorch_tanh");
  }

  /** For options that are honoured at one value only: anything else is refused; absent is that value. */
  only(name: string, ...values: readonly (string | number | boolean)[]): void {
    if (this.has(name) && !values.includes(this.raw[name] as string)) {
      throw this.refuse(name, this.raw[name], values.join(", "));
    }
  }

  /** For two fields that must agree: `what` says how. */
  check(isRight: boolean, name: string, what: string): void {
    if (!isRight) throw this.refuse(name, this.raw[name], what);
  }

  refuse(name: string, value: unknown, known: string): FormatError {
    const shown = typeof value === "string" ? value : (JSON.stringify(value) ?? "missing");
    return new FormatError("unsupported_model_option", {
      file: this.file,
      param: name,
      value: shown.slice(0, 100),
      known,
    });
  }

  #get(name: string, absent: unknown): unknown {
    return this.has(name) ? this.raw[name] : absent;
  }
}
