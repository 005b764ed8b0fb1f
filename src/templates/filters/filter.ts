// What filters and tests get beside the value.

import { getAttribute, getItem } from "../values/methods.js";
import { Text } from "../values/text.js";
import type { MethodContext } from "../values/text-methods.js";
import { lower } from "../values/text-search.js";
import { type Arguments, Undefined, type Value } from "../values/values.js";

export interface FilterContext extends MethodContext {
  callFilter(name: string, value: Value, args: Arguments): Value;
  callTest(name: string, value: Value, args: Arguments): boolean;
}

export type Filter = (value: Value, args: Arguments, context: FilterContext) => Value;

export const ignoreCase = (value: Value): Value => (value instanceof Text ? lower(value) : value);

/** The attribute that a filter names: "a.b", or a number for an item. */
export function attributeGetter(
  attribute: Value | undefined,
  context: MethodContext,
  fallback: Value = null,
): (item: Value) => Value {
  if (attribute === undefined || attribute === null) return (item) => item;
  const parts: Value[] =
    attribute instanceof Text
      ? attribute.s.split(".").map((part) => (/^\d+$/.test(part) ? BigInt(part) : Text.own(part)))
      : [attribute];
  return (item) => {
    let value = item;
    for (const part of parts) {
      value = getItem(value, part, context);
      if (value instanceof Undefined && fallback !== null) value = fallback;
    }
    return value;
  };
}

export { getAttribute };
