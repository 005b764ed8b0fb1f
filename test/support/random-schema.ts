// Random JSON schemas with bounded strings and arrays, so that every text of theirs is short.

type Random = () => number;

export function randomSchema(random: Random, depth = 0): Record<string, unknown> {
  const kinds = ["string", "integer", "number", "boolean", "null", "enum", "const", "bounded", "pattern"];
  if (depth < 3) kinds.push("object", "object", "array", "tuple", "anyOf");
  const kind = depth === 0 ? "object" : pick(random, kinds);
  switch (kind) {
    case "string": {
      const minLength = int(random, 0, 3);
      return { type: "string", minLength, maxLength: minLength + int(random, 0, 8) };
    }
    case "pattern":
      return {
        type: "string",
        pattern: pick(random, ["^[a-z]{1,8}$", "^\\d{3}-\\d{4}$", "^(red|green|blue)$", "^[^x]{2}$"]),
      };
    case "bounded": {
      const minimum = int(random, -1000, 1000) / pick(random, [1, 4, 10]);
      return { type: "number", minimum, maximum: minimum + int(random, 1, 500) };
    }
    case "integer":
      return random() < 0.5
        ? { type: "integer" }
        : { type: "integer", minimum: int(random, -50, 0), maximum: int(random, 0, 50) };
    case "enum":
      return { enum: ["red", "green", 3, null, true].slice(0, int(random, 1, 5)) };
    case "const":
      return { const: pick(random, ["x", 1, false]) };
    case "array": {
      const minItems = int(random, 0, 2);
      return {
        type: "array",
        items: randomSchema(random, depth + 1),
        minItems,
        maxItems: minItems + int(random, 0, 2),
      };
    }
    case "tuple":
      return {
        type: "array",
        prefixItems: [randomSchema(random, depth + 1), randomSchema(random, depth + 1)],
        items: false,
      };
    case "anyOf":
      return { anyOf: [randomSchema(random, depth + 1), randomSchema(random, depth + 1)] };
    case "object": {
      const names = ["name", "age", "tags", "note"].slice(0, int(random, 1, 4));
      const properties = Object.fromEntries(names.map((name) => [name, randomSchema(random, depth + 1)]));
      return { type: "object", properties, required: names.filter(() => random() < 0.7), additionalProperties: false };
    }
    default:
      return { type: kind };
  }
}

function int(random: Random, low: number, high: number): number {
  return low + Math.floor(random() * (high - low + 1));
}

function pick<T>(random: Random, items: readonly T[]): T {
  return items[Math.floor(random() * items.length)]!;
}
