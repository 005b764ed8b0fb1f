// Values and bytes made wrong, by a seeded hand.

export type Random = () => number;
export const pick = <T>(random: Random, items: readonly T[]): T => items[Math.floor(random() * items.length)]!;

const STRANGE: readonly unknown[] = [
  null,
  -1,
  0,
  1.5,
  1e308,
  2 ** 53,
  -(2 ** 31),
  "",
  "\ud800",
  "a".repeat(300),
  "__proto__",
  "(a|a)*b",
  "root ::= root",
  [],
  {},
  true,
  [[]],
  [null],
  { type: "x" },
  { type: "object", properties: { a: { $ref: "#" } } },
  "💥\u0000",
];

/** One value somewhere inside replaced, removed, doubled or put under another key. */
export function mutateValue(value: unknown, random: Random): unknown {
  if (typeof value === "number" && random() < 0.5) return nearby(value, random);
  if (typeof value !== "object" || value === null || random() < 0.15) return pick(random, STRANGE);
  if (Array.isArray(value)) {
    const copy = [...value];
    const at = Math.floor(random() * copy.length);
    const kind = random();
    if (copy.length === 0 || kind < 0.1) copy.push(pick(random, STRANGE));
    else if (kind < 0.2) copy.splice(at, 1);
    else if (kind < 0.3) copy.push(copy[at]);
    else copy[at] = mutateValue(copy[at], random);
    return copy;
  }
  const entries = Object.entries(value);
  if (entries.length === 0) return { [pick(random, ["a", "type", "x".repeat(50)])]: pick(random, STRANGE) };
  const [key, inner] = pick(random, entries);
  const rest = Object.fromEntries(entries.filter(([name]) => name !== key));
  if (random() < 0.1) return rest;
  if (random() < 0.1) return { ...rest, [`${key}s`]: inner };
  return { ...rest, [key]: mutateValue(inner, random) };
}

/** Numbers that look right go further than strange ones before they are found to be wrong. */
function nearby(value: number, random: Random): number {
  return pick(random, [value + 1, value - 1, value * 2, Math.floor(value / 2), -value, 1, 3]);
}

/** Characters removed, doubled or replaced. */
export function mutateText(text: string, random: Random): string {
  let out = text;
  for (let i = 0; i < 1 + random() * 4; i++) {
    const at = Math.floor(random() * out.length);
    const insert = pick(random, ["", '"', "}", "[", ",", "\\", "\u0000", "1e999", "null", "-", out.slice(at, at + 9)]);
    out = out.slice(0, at) + insert + out.slice(at + Math.floor(random() * 3));
  }
  return out;
}

/** Bytes flipped, cut off, filled or moved. */
export function mutateBytes(bytes: Uint8Array, random: Random): Uint8Array {
  const out = Uint8Array.from(bytes);
  // Headers stand first, and are where most of the meaning is.
  const place = (): number => Math.floor(random() * (random() < 0.7 ? Math.min(out.length, 600) : out.length));
  for (let i = 0; i < 1 + random() * 6; i++) {
    const at = place();
    const kind = random();
    if (kind < 0.5) out[at] = Math.floor(random() * 256);
    else if (kind < 0.7) out.fill(pick(random, [0, 0xff, 0x7f, 0x80]), at, at + 1 + Math.floor(random() * 8));
    else if (kind < 0.9) out.copyWithin(at, place(), place() + 16);
    else return out.slice(0, at);
  }
  return out;
}
