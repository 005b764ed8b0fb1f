// f16, bf16 and the two 8-bit float formats to f32 and back. Every value of these formats is exact in f32, so decoding
// is a table lookup; encoding rounds to nearest, ties to even.

const bits = new Uint32Array(1);
const value = new Float32Array(bits.buffer);

/** Value of a sign/exponent/mantissa code by the IEEE rules (subnormals, infinities and NaN at the top exponent). */
function ieee(code: number, exponentBits: number, mantissaBits: number): number {
  const mantissa = code & ((1 << mantissaBits) - 1);
  const exponent = (code >> mantissaBits) & ((1 << exponentBits) - 1);
  const sign = code >> (exponentBits + mantissaBits) ? -1 : 1;
  const bias = (1 << (exponentBits - 1)) - 1;
  if (exponent === (1 << exponentBits) - 1) return mantissa === 0 ? sign * Infinity : NaN;
  if (exponent === 0) return sign * mantissa * 2 ** (1 - bias - mantissaBits);
  return sign * (1 + mantissa / (1 << mantissaBits)) * 2 ** (exponent - bias);
}

/** Every f16 code's value [65536]; written as bits, since every process that imports this pays for it. */
export const F16_VALUES = new Float32Array(65536);
{
  const f32Bits = new Uint32Array(F16_VALUES.buffer);
  for (let code = 0; code < 65536; code++) {
    const sign = (code & 0x8000) << 16;
    const exponent = (code >> 10) & 31;
    const mantissa = code & 0x3ff;
    if (exponent === 0) F16_VALUES[code] = (sign === 0 ? mantissa : -mantissa) * 2 ** -24;
    else if (exponent === 31) f32Bits[code] = mantissa === 0 ? sign | 0x7f800000 : 0x7fc00000;
    else f32Bits[code] = sign | ((exponent + 112) << 23) | (mantissa << 13);
  }
}

/** Every f8 e5m2 code's value [256]. */
export const F8_E5M2_VALUES = Float32Array.from({ length: 256 }, (_, code) => ieee(code, 5, 2));

/** Every f8 e4m3 code's value [256], in the "fn" variant of checkpoints: no infinities, NaN only at all ones. */
export const F8_E4M3_VALUES = Float32Array.from({ length: 256 }, (_, code) => {
  const exponent = (code >> 3) & 15;
  if (exponent !== 15) return ieee(code, 4, 3);
  return (code & 7) === 7 ? NaN : (code >> 7 ? -1 : 1) * (1 + (code & 7) / 8) * 256;
});

export function f16ToF32(code: number): number {
  return F16_VALUES[code]!;
}

/** The f16 at a byte offset, little endian. */
export function f16At(bytes: Uint8Array, at: number): number {
  return F16_VALUES[bytes[at]! | (bytes[at + 1]! << 8)]!;
}

export function bf16ToF32(code: number): number {
  bits[0] = code << 16;
  return value[0]!;
}

/** Nearest f16 code, ties to even; too large becomes infinity. */
export function f32ToF16(x: number): number {
  value[0] = x;
  const b = bits[0]!;
  const sign = (b >>> 16) & 0x8000;
  const magnitude = b & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00; // NaN stays NaN
  if (magnitude >= 0x477ff000) return sign | 0x7c00; // 65520 and above round to infinity
  if (magnitude < 0x38800000) return sign | roundEven(Math.abs(value[0]!) * 2 ** 24); // subnormal: units of 2^-24
  // Normal: drop 13 mantissa bits; a carry out of the mantissa moves into the exponent, which is what rounding up means.
  const dropped = magnitude & 0x1fff;
  const kept = (magnitude - 0x38000000) >>> 13;
  return sign | (kept + (dropped > 0x1000 || (dropped === 0x1000 && kept & 1) ? 1 : 0));
}

/** Nearest bf16 code, ties to even. */
export function f32ToBf16(x: number): number {
  value[0] = x;
  const b = bits[0]!;
  if ((b & 0x7fffffff) > 0x7f800000) return ((b >>> 16) | 0x40) & 0xffff;
  return ((b + 0x7fff + ((b >>> 16) & 1)) >>> 16) & 0xffff;
}

/** Nearest f8 e4m3 code, ties to even; 448 and more, and NaN, become 448. */
export function f32ToE4m3(x: number): number {
  value[0] = x;
  const b = bits[0]!;
  const sign = (b >>> 24) & 0x80;
  const magnitude = b & 0x7fffffff;
  if (magnitude >= 0x43e00000) return sign | 0x7e;
  if (magnitude < 0x3c800000) return sign | roundEven(Math.abs(value[0]!) * 2 ** 9); // subnormal: units of 2^-9
  return sign | ((magnitude + 0x7ffff + ((magnitude >>> 20) & 1) - 0x3c000000) >>> 20);
}

function roundEven(x: number): number {
  const down = Math.floor(x);
  const rest = x - down;
  return rest > 0.5 || (rest === 0.5 && down & 1) ? down + 1 : down;
}
