// native/cpu/include/pagoda_cpu.h, line by line. abi.test.ts parses the header and compares names, argument counts and types.
// The same functions are reached in two ways: in a shared library (koffi-abi.ts) and in a WebAssembly module (wasm/).
//
// Argument types: "addr" is a native address held in a plain number (48 bits fit a double), "in" and "out" are typed arrays lent for
// the call (or, in, a string), to be read and to be written. All are pointers in the header, those of "in" to const.

export type AbiType = "i32" | "i64" | "f32" | "f64" | "addr" | "in" | "out";

const I32 = "i32";
const I64 = "i64";
const F32 = "f32";
const ADDR = "addr";
const IN = "in";
const OUT = "out";

export const ABI_VERSION = 12;

/** name -> [result, ...arguments], in the header's order. */
export const ABI = {
  pg_abi_version: [I32],
  pg_context_create: [I32, I32, I32, OUT],
  pg_context_free: [I32, ADDR],
  pg_last_error: [I32, ADDR, OUT, I32],
  pg_pin_threads: [I32, ADDR],
  pg_isa: [I32, ADDR],

  pg_alloc: [I32, ADDR, I64, OUT],
  pg_free: [I32, ADDR, ADDR, I64],
  pg_reserve_activations: [I32, ADDR, I64, I64],

  pg_weight_create: [I32, ADDR, I64, OUT],
  pg_weight_append: [I32, ADDR, ADDR, I32, I32, I64, I32, IN, I64],
  pg_weight_append_file: [I32, ADDR, ADDR, I32, I32, I64, I32, IN, I64, I64],
  pg_weight_map_file: [I32, ADDR, ADDR, I32, I64, IN, I64, I64],
  pg_weight_only_multiplied: [I32, ADDR, ADDR],
  pg_weight_bytes: [I64, ADDR],
  pg_weight_free: [I32, ADDR, ADDR],

  pg_matmul: [I32, ADDR, ADDR, I64, ADDR, I64, ADDR, I64, ADDR, F32, I32],
  pg_gated_matmul: [I32, ADDR, ADDR, I64, ADDR, I64, ADDR, I64, I32, ADDR, I64],
  pg_low_rank_create: [I32, ADDR, I64, I64, I64, IN, IN, OUT],
  pg_low_rank_bytes: [I64, ADDR],
  pg_low_rank_free: [I32, ADDR, ADDR],
  pg_low_rank: [I32, ADDR, ADDR, I64, ADDR, I64, ADDR, I64],

  pg_step_create: [I32, ADDR, OUT],
  pg_step_free: [I32, ADDR],
  pg_step_reserve: [I32, ADDR, ADDR, I64, OUT],
  pg_step_stage: [I32, ADDR, ADDR, I64],
  pg_embed: [I32, ADDR, ADDR, I64, ADDR, ADDR, F32],
  pg_add_positions: [I32, ADDR, ADDR, I64, ADDR, ADDR],
  pg_add_types: [I32, ADDR, ADDR, I64, ADDR, ADDR],
  pg_gather_logit_rows: [I32, ADDR, ADDR, I64, ADDR, I64, ADDR, I64, I64, I64],

  pg_rms_norm: [I32, ADDR, ADDR, I64, ADDR, I64, ADDR, I64, F32, I64, I64, I64],
  pg_add_rms_norm: [I32, ADDR, ADDR, I64, ADDR, I64, ADDR, I64, ADDR, F32, I64, I64],
  pg_layer_norm: [I32, ADDR, ADDR, I64, ADDR, I64, ADDR, ADDR, I64, F32, I64, I64, I64],
  pg_add: [I32, ADDR, ADDR, I64, ADDR, I64, ADDR, I64, F32, I64, I64],
  pg_scale: [I32, ADDR, ADDR, I64, F32, I64, I64],
  pg_clamp: [I32, ADDR, ADDR, I64, ADDR, I64, F32, F32, I64, I64],
  pg_scale_rows: [I32, ADDR, ADDR, I64, ADDR, I64, I64, I64],
  pg_scale_by_position: [I32, ADDR, ADDR, I64, ADDR, F32, I32, I32, I64],
  pg_xielu: [I32, ADDR, ADDR, I64, F32, F32, F32, F32, I64, I64],
  pg_softcap: [I32, ADDR, ADDR, I64, F32, I64, I64],
  pg_gated_activation: [I32, ADDR, ADDR, I64, ADDR, I64, ADDR, I64, I32, I64, I64],
  pg_activation: [I32, ADDR, ADDR, I64, ADDR, I64, I32, I64, I64],
  pg_copy_heads: [I32, ADDR, ADDR, I64, ADDR, I64, I64, I64, I64, I64, I64, I64, I64],
  pg_decay_gates: [I32, ADDR, ADDR, I64, ADDR, I64, ADDR, I64, ADDR, ADDR, F32, F32, I64, I64],
  pg_read_rows: [I32, OUT, ADDR, I64, I64, I64],

  pg_kv_page_bytes: [I64, I32, I32, I32, I32, I32, I32, I32],
  pg_kv_pool_create: [I32, ADDR, I32, I32, I32, I32, I32, I32, I32, I32, OUT],
  pg_kv_pool_free: [I32, ADDR],
  pg_copy_page: [I32, ADDR, ADDR, I32, I32],
  pg_read_pages: [I32, ADDR, OUT, ADDR, IN, I64],
  pg_write_pages: [I32, ADDR, ADDR, IN, I64, IN],
  pg_rotary_table: [I32, ADDR, ADDR, ADDR, ADDR, ADDR, I32, F32],
  pg_rotary: [I32, ADDR, ADDR, I64, I64, I64, I64, I64, ADDR, ADDR, I32, I32],
  pg_rotary_append: [I32, ADDR, ADDR, I64, I64, ADDR, I64, ADDR, I64, ADDR, ADDR, I32, I32, ADDR, I32, ADDR, I32],
  pg_attention: [I32, ADDR, ADDR, I64, ADDR, I64, ADDR, I32, I32, ADDR, I32, I32, F32, F32, ADDR],

  pg_short_conv: [I32, ADDR, ADDR, I64, ADDR, I64, ADDR, I64, ADDR, I32, I64, I32, ADDR, ADDR, I64, I64, I64],
  pg_linear_attention: [
    ...[I32, ADDR, ADDR, I64, ADDR, I64, ADDR, I64, ADDR, I64, ADDR, I64, ADDR, I64],
    ...[ADDR, I32, I32, I32, I32, I32, ADDR, ADDR, I64, I64, I64],
  ],

  pg_experts_create: [
    ...[I32, ADDR, I32, IN, IN, ADDR, I64, ADDR, I64, I64],
    ...[I64, I32, I32, I32, I32, F32, ADDR, ADDR, I32, I32, I32, I32, I32, I64, OUT],
  ],
  pg_experts_free: [I32, ADDR],
  pg_mixture_of_experts: [I32, ADDR, ADDR, I64, ADDR, I64, ADDR, I64, ADDR, I64],

  pg_sample: [I32, ADDR, OUT, OUT, OUT, OUT, I64, ADDR, I64, I64, I64, IN, I64, IN, I64, ADDR, I64],

  pg_measure_peak: [I32, ADDR, I32, OUT],
  pg_run_peak: [I32, ADDR, I32, ADDR, I64, OUT],
} as const satisfies Record<string, readonly AbiType[]>;

type Argument<T> = T extends "in" | "out" ? ArrayBufferView | string : number;
type Arguments<T> = T extends readonly [unknown, ...infer Rest] ? { [I in keyof Rest]: Argument<Rest[I]> } : never;

/** The header's functions; results are statuses unless it says otherwise. */
export type NativeFunctions = {
  readonly [Name in keyof typeof ABI]: (...args: Arguments<(typeof ABI)[Name]>) => number;
};

export interface NativeLibrary extends NativeFunctions {
  /** The device that it makes, as errors name it. */
  readonly device: "cpu" | "wasm";
  /** Whether weights can be read from files by name; otherwise their bytes are passed. */
  readonly readsFiles: boolean;
  /** The memory at a native address; the caller keeps it alive. */
  view(address: number, bytes: number): { readonly buffer: ArrayBufferLike; readonly byteOffset: number };
}
