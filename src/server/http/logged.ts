// What the log has of a body: all but the bytes of pictures.

const LONGEST = 64;

/** Strings that are pictures are cut to their beginning. */
export function withoutPictures(value: unknown): unknown {
  if (typeof value === "string")
    return /^data:/i.test(value) ? `${value.slice(0, LONGEST)}... (${value.length} characters)` : value;
  if (Array.isArray(value)) return value.map(withoutPictures);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      name === "data" || name === "images" ? lengthsOf(inner) : withoutPictures(inner),
    ]),
  );
}

/** Of base64 without a head. */
function lengthsOf(value: unknown): unknown {
  if (typeof value === "string") return `(${value.length} characters)`;
  return Array.isArray(value) ? value.map(lengthsOf) : withoutPictures(value);
}
