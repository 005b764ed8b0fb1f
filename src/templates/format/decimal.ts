// Decimal digits of a float, rounded from its exact value, ties to even: JavaScript's toFixed takes the larger of a tie.

/** A finite x >= 0 as numerator / 2^shift, exactly. */
function exactly(x: number): { numerator: bigint; denominator: bigint } {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  const bits = view.getBigUint64(0);
  const exponent = Number((bits >> 52n) & 0x7ffn);
  const fraction = bits & 0xfffffffffffffn;
  const mantissa = exponent === 0 ? fraction : fraction | (1n << 52n);
  const power = (exponent === 0 ? 1 : exponent) - 1075;
  if (power >= 0) return { numerator: mantissa << BigInt(power), denominator: 1n };
  return { numerator: mantissa, denominator: 1n << BigInt(-power) };
}

/** x times 10^places, rounded to a whole number; x >= 0. */
function scaled(x: number, places: number): bigint {
  let { numerator, denominator } = exactly(x);
  if (places >= 0) numerator *= 10n ** BigInt(places);
  else denominator *= 10n ** BigInt(-places);
  const quotient = numerator / denominator;
  const twice = (numerator % denominator) * 2n;
  const isUp = twice > denominator || (twice === denominator && quotient % 2n === 1n);
  return isUp ? quotient + 1n : quotient;
}

const signOf = (x: number): string => (x < 0 || Object.is(x, -0) ? "-" : "");

/** "%.{places}f" */
export function toFixed(x: number, places: number): string {
  const digits = scaled(Math.abs(x), places)
    .toString()
    .padStart(places + 1, "0");
  const whole = digits.slice(0, digits.length - places);
  return `${signOf(x)}${whole}${places > 0 ? `.${digits.slice(digits.length - places)}` : ""}`;
}

/** "%.{places}e" */
export function toExponent(x: number, places: number): string {
  const absolute = Math.abs(x);
  let exponent = Number(absolute.toExponential().split("e")[1]);
  let digits = scaled(absolute, places - exponent).toString();
  if (digits.length > places + 1) {
    exponent++;
    digits = scaled(absolute, places - exponent).toString();
  }
  digits = digits.padEnd(places + 1, "0");
  const fraction = places > 0 ? `.${digits.slice(1)}` : "";
  return `${signOf(x)}${digits[0]}${fraction}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

/** "%.{precision}g" */
export function toGeneral(x: number, precision: number, keepsZeros: boolean): string {
  const significant = Math.max(precision, 1);
  const scientific = toExponent(x, significant - 1);
  const exponent = Number(scientific.split("e")[1]);
  const isPlain = exponent >= -4 && exponent < significant;
  const text = isPlain ? toFixed(x, significant - 1 - exponent) : scientific;
  if (keepsZeros || !text.includes(".")) return text;
  return text.replace(/\.?0+(?=e|$)/, "");
}

/** Python's round() of a float. */
export function roundTo(x: number, places: number): number {
  if (!Number.isFinite(x)) return x;
  if (places >= 0) return Number(toFixed(x, Math.min(places, 400)));
  if (places < -400) return signOf(x) === "-" ? -0 : 0; // larger than every float
  const whole = scaled(Math.abs(x), places) * 10n ** BigInt(-places);
  return signOf(x) === "-" ? -Number(whole) : Number(whole);
}
