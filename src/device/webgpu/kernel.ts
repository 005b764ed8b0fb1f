// A compute kernel: WGSL with its operands by name ($out, $x), which the queue gives bindings. WebGPU forbids that one buffer is bound twice
// where it is written, so operands that share a buffer share a binding: a kernel becomes one program for each pattern of sharing.

export interface Operand {
  readonly name: string;
  /** WGSL type of an element. */
  readonly type: string;
  readonly isWritten: boolean;
}

export interface Kernel {
  readonly name: string;
  readonly operands: readonly Operand[];
  /** Fields of the parameter struct, 4 bytes each. */
  readonly fields: string;
  readonly code: string;
}

/**
 * `operands`: "out:rw:f32 x:r:f32". `params`: "n cols scale:f at:i", u32 where nothing is said; the code reads them as p.cols.
 */
export function kernel(name: string, operands: string, params: string, code: string): Kernel {
  const list = operands.split(" ").map((text) => {
    const [operand, access, type] = text.split(":") as [string, string, string];
    return { name: operand, type, isWritten: access === "rw" };
  });
  const fields = params
    .split(" ")
    .filter((text) => text !== "")
    .map((text) => {
      const [field, type] = text.split(":");
      return `${field}: ${type === "f" ? "f32" : type === "i" ? "i32" : "u32"}`;
    });
  return { name, operands: list, fields: fields.length === 0 ? "unused: u32" : fields.join(", "), code };
}

/** Operands whose buffers are the same and of which one is written have one binding: `sharing[i]` is the first operand of i's binding. */
export function shaderOf({ operands, fields, code }: Kernel, sharing: readonly number[]): string {
  const lines: string[] = [`struct Params { ${fields} }`, "@group(0) @binding(0) var<uniform> p: Params;"];
  const names = new Map<string, string>();
  let binding = 1;
  operands.forEach(({ name, type }, i) => {
    const first = sharing[i]!;
    names.set(name, `b${first}`);
    if (first !== i) {
      if (operands[first]!.type !== type)
        throw new TypeError(`operands of one buffer as ${operands[first]!.type} and ${type}`);
      return;
    }
    const access = isBindingWritten(operands, sharing, i) ? "read_write" : "read";
    lines.push(`@group(0) @binding(${binding++}) var<storage, ${access}> b${i}: array<${type}>;`);
  });
  const body = code.replace(/\$(\w+)/g, (_, name: string) => {
    const found = names.get(name);
    if (found === undefined) throw new TypeError(`the kernel has no operand ${name}`);
    return found;
  });
  return `${lines.join("\n")}\n${body}`;
}

export function isBindingWritten(operands: readonly Operand[], sharing: readonly number[], first: number): boolean {
  return operands.some(({ isWritten }, i) => sharing[i] === first && isWritten);
}

/** A sum over the `size` threads of a workgroup in one fixed tree: values in `name`, the result in name[0]. */
export function tree(size: number, name: string, combine = (a: string, b: string) => `${a} + ${b}`): string {
  return `for (var k = ${size / 2}u; k >= 1u; k = k / 2u) { workgroupBarrier(); if (l < k) { ${name}[l] = ${combine(`${name}[l]`, `${name}[l + k]`)}; } } workgroupBarrier();`;
}

/** Functions whose WGSL namesakes promise too little, or overflow. */
export const MATHS = `
fn tanhOf(v: f32) -> f32 { return 1.0 - 2.0 / (exp(2.0 * clamp(v, -44.0, 44.0)) + 1.0); }
fn sigmoidOf(v: f32) -> f32 { return 1.0 / (1.0 + exp(-clamp(v, -80.0, 80.0))); }
fn erfOf(v: f32) -> f32 { // Abramowitz and Stegun 7.1.26: within 1.5e-7
  let a = abs(v); let t = 1.0 / fma(0.3275911, a, 1.0);
  let s = fma(fma(fma(fma(1.061405429, t, -1.453152027), t, 1.421413741), t, -0.284496736), t, 0.254829592) * t;
  return sign(v) * (1.0 - s * exp(-a * a));
}
`;
