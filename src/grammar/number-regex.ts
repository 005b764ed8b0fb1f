// Numbers within bounds, as regular expressions. Digits are limited so that what is generated is exact in a double: integers to 15 digits,
// fractions to 15 digits in all. Every bound is honoured exactly; numbers with bounds are written without an exponent.

export interface NumberBounds {
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
}

const MAX_DIGITS = 15;
const MAX_SCALE = 6; // decimals of a bound that are looked at
const OPEN_LIMIT = 999_999_999n; // the far side of a range that is open there, leaving digits for the fraction
const WIDE_LIMIT = 10n ** BigInt(MAX_DIGITS) - 1n;

const FREE_INTEGER = "-?(0|[1-9][0-9]{0,14})";
export const FREE_NUMBER = `${FREE_INTEGER}(\\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?`;

/** null: no integer lies within the bounds. */
export function integerRegex(bounds: NumberBounds): string | null {
  const { low, high } = merge(bounds);
  if (low === null && high === null) return FREE_INTEGER;
  const from = low === null ? -openLimit(high!.value) : BigInt(Math.ceil(low.value)) + (touches(low) ? 1n : 0n);
  const to = high === null ? openLimit(low!.value) : BigInt(Math.floor(high.value)) - (touches(high) ? 1n : 0n);
  const alternatives: string[] = [];
  if (from < 0n && from <= to) alternatives.push(`-${digitRange(to < 0n ? -to : 1n, -from)}`);
  if (to >= 0n && from <= to) alternatives.push(digitRange(from > 0n ? from : 0n, to));
  return alternatives.length === 0 ? null : anyOf(alternatives);
}

/** null: no number that can be written with the digits allowed lies within the bounds. */
export function numberRegex(bounds: NumberBounds): string | null {
  const { low, high } = merge(bounds);
  if (low === null && high === null) return FREE_NUMBER;
  const needed = Math.max(low === null ? 0 : decimals(low.value), high === null ? 0 : decimals(high.value));
  const scale = Math.min(needed, MAX_SCALE);
  const from: Scaled = low === null ? open(-1n, high!.value, scale) : toScaled(low, scale, "up");
  const to: Scaled = high === null ? open(1n, low!.value, scale) : toScaled(high, scale, "down");
  const zero: Scaled = { units: 0n, isExclusive: false };
  const alternatives: string[] = [];
  if (from.units < 0n) {
    const near = to.units < 0n ? negate(to) : { units: 0n, isExclusive: true }; // "-0" is not written
    const magnitude = magnitudeRange(near, negate(from), scale);
    if (magnitude !== null) alternatives.push(`-${magnitude}`);
  }
  if (to.units > 0n || (to.units === 0n && !to.isExclusive)) {
    const magnitude = magnitudeRange(from.units < 0n ? zero : from, to, scale);
    if (magnitude !== null) alternatives.push(magnitude);
  }
  return alternatives.length === 0 ? null : anyOf(alternatives);
}

interface Bound {
  readonly value: number;
  readonly isExclusive: boolean;
}

/** A bound in units of 10^-scale. */
interface Scaled {
  readonly units: bigint;
  readonly isExclusive: boolean;
}

function merge(bounds: NumberBounds): { low: Bound | null; high: Bound | null } {
  return {
    low: tighter(bounds.minimum, bounds.exclusiveMinimum, (a, b) => a > b),
    high: tighter(bounds.maximum, bounds.exclusiveMaximum, (a, b) => a < b),
  };
}

function tighter(
  inclusive: number | undefined,
  exclusive: number | undefined,
  isTighter: (a: number, b: number) => boolean,
): Bound | null {
  if (exclusive !== undefined && (inclusive === undefined || !isTighter(inclusive, exclusive)))
    return { value: exclusive, isExclusive: true };
  return inclusive === undefined ? null : { value: inclusive, isExclusive: false };
}

/** An exclusive bound that is itself an integer excludes that integer. */
function touches(bound: Bound): boolean {
  return bound.isExclusive && Number.isInteger(bound.value);
}

function openLimit(other: number): bigint {
  const magnitude = BigInt(Math.ceil(Math.abs(other)));
  if (magnitude < OPEN_LIMIT) return OPEN_LIMIT;
  return magnitude < WIDE_LIMIT ? WIDE_LIMIT : magnitude * 10n;
}

function open(sign: 1n | -1n, other: number, scale: number): Scaled {
  return { units: sign * openLimit(other) * 10n ** BigInt(scale), isExclusive: false };
}

function negate(bound: Scaled): Scaled {
  return { units: -bound.units, isExclusive: bound.isExclusive };
}

/** Plain decimal digits of a finite double, without exponent. */
function decimalText(value: number): string {
  const text = String(Math.abs(value));
  const match = /^(\d+)(?:\.(\d+))?e([+-]\d+)$/.exec(text);
  if (match === null) return text;
  const digits = match[1]! + (match[2] ?? "");
  const point = match[1]!.length + Number(match[3]);
  if (point <= 0) return `0.${"0".repeat(-point)}${digits}`;
  if (point >= digits.length) return digits + "0".repeat(point - digits.length);
  return `${digits.slice(0, point)}.${digits.slice(point)}`;
}

function decimals(value: number): number {
  return decimalText(value).split(".")[1]?.length ?? 0;
}

/** A bound with more decimals than `scale` is moved inwards to the next unit. */
function toScaled(bound: Bound, scale: number, inwards: "up" | "down"): Scaled {
  const [whole, fraction = ""] = decimalText(bound.value).split(".");
  const isNegative = bound.value < 0;
  const magnitude = BigInt(whole! + fraction.slice(0, scale).padEnd(scale, "0"));
  const units = isNegative ? -magnitude : magnitude;
  if (fraction.length <= scale) return { units, isExclusive: bound.isExclusive };
  const move = inwards === "up" ? (isNegative ? 0n : 1n) : isNegative ? -1n : 0n;
  return { units: units + move, isExclusive: false };
}

/** Non-negative decimals x with low <= x <= high (strictly where exclusive), both in units of 10^-scale. */
function magnitudeRange(low: Scaled, high: Scaled, scale: number): string | null {
  const first = low.isExclusive ? low.units + 1n : low.units;
  const last = high.isExclusive ? high.units - 1n : high.units;
  const alternatives: string[] = [];
  // Written with as many decimals as the bounds have, or fewer where such a number lies between them.
  for (let decimals = scale; decimals >= 0; decimals--) {
    const unit = 10n ** BigInt(scale - decimals);
    const [from, to] = [(first + unit - 1n) / unit, last / unit];
    if (last >= 0n && from <= to) alternatives.push(unitRange(from, to, decimals));
  }
  // Further digits after a value n stay below n + 1 unit, so they are safe up to the unit before the upper bound.
  const extra = MAX_DIGITS - String(high.units).length;
  if (extra > 0) {
    const point = scale === 0 ? "\\." : "";
    if (first < high.units) alternatives.push(`${unitRange(first, high.units - 1n, scale)}${point}[0-9]{1,${extra}}`);
    if (low.isExclusive && low.units < high.units)
      alternatives.push(`${unitRange(low.units, low.units, scale)}${point}[0-9]{0,${extra - 1}}[1-9]`);
  }
  return alternatives.length === 0 ? null : anyOf(alternatives);
}

/** Values first..last in units of 10^-scale, written with exactly `scale` decimals. */
function unitRange(first: bigint, last: bigint, scale: number): string {
  if (scale === 0) return digitRange(first, last);
  const unit = 10n ** BigInt(scale);
  const wholeFirst = first / unit;
  const wholeLast = last / unit;
  const fractionOf = (units: bigint) => String(units % unit).padStart(scale, "0");
  const zeros = "0".repeat(scale);
  const nines = "9".repeat(scale);
  const part = (whole: bigint, from: string, to: string) => `${whole}\\.${sameLength(from, to)}`;
  if (wholeFirst === wholeLast) return part(wholeFirst, fractionOf(first), fractionOf(last));
  const alternatives = [part(wholeFirst, fractionOf(first), nines), part(wholeLast, zeros, fractionOf(last))];
  if (wholeLast - wholeFirst > 1n)
    alternatives.push(`${digitRange(wholeFirst + 1n, wholeLast - 1n)}\\.${sameLength(zeros, nines)}`);
  return anyOf(alternatives);
}

/** Whole numbers low..high, both >= 0, without leading zeros. */
export function digitRange(low: bigint, high: bigint): string {
  const from = String(low);
  const to = String(high);
  const alternatives: string[] = [];
  for (let length = from.length; length <= to.length; length++) {
    const first = length === from.length ? from : `1${"0".repeat(length - 1)}`;
    const last = length === to.length ? to : "9".repeat(length);
    alternatives.push(sameLength(first, last));
  }
  return anyOf(alternatives);
}

/** Digit strings between two of the same length. */
function sameLength(low: string, high: string): string {
  const n = low.length;
  if (low === high) return low;
  if (/^0*$/.test(low) && /^9*$/.test(high)) return `[0-9]{${n}}`;
  const head = Number(low[0]);
  const tail = Number(high[0]);
  const lowRest = low.slice(1);
  const highRest = high.slice(1);
  if (head === tail) return `${head}${sameLength(lowRest, highRest)}`;
  const alternatives: string[] = [];
  let from = head;
  let to = tail;
  if (!/^0*$/.test(lowRest)) {
    alternatives.push(`${head}${sameLength(lowRest, "9".repeat(n - 1))}`);
    from++;
  }
  if (!/^9*$/.test(highRest)) {
    alternatives.push(`${tail}${sameLength("0".repeat(n - 1), highRest)}`);
    to--;
  }
  if (from <= to) {
    alternatives.push(`[${from}-${to}]${n === 1 ? "" : `[0-9]{${n - 1}}`}`);
  }
  return anyOf(alternatives);
}

function anyOf(alternatives: readonly string[]): string {
  return alternatives.length === 1 ? alternatives[0]! : `(${alternatives.join("|")})`;
}
