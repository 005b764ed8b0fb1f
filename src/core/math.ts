// Small integer arithmetic used everywhere.

export function ceilDiv(a: number, b: number): number {
  return Math.ceil(a / b);
}

export function alignDown(value: number, multiple: number): number {
  return value - (value % multiple);
}

export function alignUp(value: number, multiple: number): number {
  return ceilDiv(value, multiple) * multiple;
}
