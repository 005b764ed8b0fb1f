// A parsed template. Names follow Jinja's own nodes.

import type { Text } from "../values/text.js";

export type Expr =
  | { readonly kind: "const"; readonly value: null | boolean | bigint | number }
  | { readonly kind: "string"; readonly text: Text }
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "list" | "tuple"; readonly items: readonly Expr[] }
  | { readonly kind: "dict"; readonly entries: readonly (readonly [Expr, Expr])[] }
  | { readonly kind: "cond"; readonly test: Expr; readonly yes: Expr; readonly no: Expr | null }
  | { readonly kind: "and" | "or"; readonly left: Expr; readonly right: Expr }
  | { readonly kind: "not"; readonly of: Expr }
  | { readonly kind: "compare"; readonly first: Expr; readonly rest: readonly (readonly [string, Expr])[] }
  | { readonly kind: "binary"; readonly operator: string; readonly left: Expr; readonly right: Expr }
  | { readonly kind: "unary"; readonly operator: string; readonly of: Expr }
  | { readonly kind: "concat"; readonly items: readonly Expr[] }
  | { readonly kind: "getattr"; readonly of: Expr; readonly name: string }
  | { readonly kind: "getitem"; readonly of: Expr; readonly key: Expr }
  | { readonly kind: "slice"; readonly start: Expr | null; readonly stop: Expr | null; readonly step: Expr | null }
  | { readonly kind: "call"; readonly of: Expr; readonly args: CallArgs }
  | { readonly kind: "filter"; readonly of: Expr | null; readonly name: string; readonly args: CallArgs }
  | { readonly kind: "test"; readonly of: Expr; readonly name: string; readonly args: CallArgs };

export interface CallArgs {
  readonly positional: readonly Expr[];
  readonly named: readonly (readonly [string, Expr])[];
  readonly star: Expr | null;
  readonly doubleStar: Expr | null;
}

export const NO_ARGS: CallArgs = { positional: [], named: [], star: null, doubleStar: null };

export type Target =
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "attribute"; readonly of: string; readonly name: string }
  | { readonly kind: "tuple"; readonly items: readonly Target[] };

export interface Signature {
  readonly parameters: readonly { readonly name: string; readonly fallback: Expr | null }[];
  readonly body: readonly Node[];
  /** The special names that the body speaks of. */
  readonly uses: { readonly caller: boolean; readonly kwargs: boolean; readonly varargs: boolean };
}

export type Node =
  | { readonly kind: "data"; readonly text: Text }
  | { readonly kind: "output"; readonly expr: Expr }
  | { readonly kind: "if"; readonly test: Expr; readonly body: readonly Node[]; readonly otherwise: readonly Node[] }
  | ForNode
  | { readonly kind: "set"; readonly target: Target; readonly value: Expr }
  | { readonly kind: "setblock"; readonly target: Target; readonly filter: Expr | null; readonly body: readonly Node[] }
  | { readonly kind: "macro"; readonly name: string; readonly signature: Signature }
  | { readonly kind: "callblock"; readonly call: Expr & { kind: "call" }; readonly signature: Signature }
  | { readonly kind: "filterblock"; readonly filter: Expr; readonly body: readonly Node[] }
  | { readonly kind: "with"; readonly names: readonly (readonly [Target, Expr])[]; readonly body: readonly Node[] }
  /** generation, block: a body in a scope of its own. */
  | { readonly kind: "scope"; readonly body: readonly Node[]; readonly seesLocals: boolean }
  | { readonly kind: "break" | "continue" };

export interface ForNode {
  readonly kind: "for";
  readonly target: Target;
  readonly iterable: Expr;
  readonly test: Expr | null;
  readonly isRecursive: boolean;
  readonly body: readonly Node[];
  readonly otherwise: readonly Node[];
}
