// The public names of the library, read from the declarations that the compiler emits: what docs/reference/api.md shows, and what the test
// of its completeness goes by. The emitted files are regular (a declaration begins in the first column, a member four spaces in), so
// they are read as text: TypeScript 7 has no stable API for programs, and TypeDoc supports none of its versions yet.

import { readFileSync } from "node:fs";

export interface PublicName {
  readonly name: string;
  readonly kind: string;
  /** What its JSDoc says; "" where there is none. */
  readonly doc: string;
  /** As emitted, without `export declare`, private and internal members. */
  readonly declaration: string;
  /** Names of the library that it refers to, public or not. */
  readonly refersTo: readonly string[];
  /** What the JSDoc of each member says, by the member's text up to its type; "" where there is none. */
  readonly members: ReadonlyMap<string, string>;
}

const COMMENT = String.raw`/\*\*(?:(?!\*/)[\s\S])*\*/`;
const DECLARATION = new RegExp(
  String.raw`(?:^(${COMMENT})\n)?^(?:export )?(?:declare )?(interface|class|function|const|type) (\w+)[\s\S]*?(?=\n(?:/\*\*|export |import |declare |interface |type )|\n*$(?![\s\S]))`,
  "gm",
);
const MEMBER = new RegExp(String.raw`(?:^ {4}(${COMMENT})\n)?^ {4}(?! |\*|/|\}).*(?:\n(?: {5,}| {4}\}).*)*\n`, "gm");

/** What a module exports, in the order in which its exports are written; `entry` is its .d.ts. */
export function publicNames(entry: URL): PublicName[] {
  const text = readFileSync(entry, "utf8");
  const found: PublicName[] = [];
  for (const [, list, from] of text.matchAll(/^export (?:type )?(\*|\{[^}]*\}) from "(.*)\.js";/gm)) {
    const file = new URL(`${from}.d.ts`, entry);
    const wanted = list === "*" ? null : list!.match(/\w+(?=[\s,}])/g)!.filter((word) => word !== "type");
    const all = declarationsOf(file);
    const names = wanted ?? all.filter(({ isExported }) => isExported).map(({ name }) => name);
    for (const name of names) {
      const declared = all.find((declaration) => declaration.name === name);
      if (declared === undefined) throw new Error(`${file.pathname} does not declare ${name}`);
      found.push(declared);
    }
  }
  return found;
}

function declarationsOf(file: URL): (PublicName & { readonly isExported: boolean })[] {
  const text = readFileSync(file, "utf8").replace(/\n\/\/# sourceMappingURL.*\n?$/, "\n");
  const imported = [...text.matchAll(/^import (?:type )?\{([^}]*)\} from "\./gm)].flatMap(
    ([, list]) => list!.match(/\w+/g)!,
  );
  const matches = [...text.matchAll(DECLARATION)];
  const local = new Set([...imported.filter((word) => word !== "type"), ...matches.map(([, , , name]) => name!)]);
  return matches.map(([whole, comment = "", kind, name]) => {
    const declaration = shown(whole.slice(comment.length).trim());
    const words = declaration.replaceAll(new RegExp(COMMENT, "g"), "").match(/\b[A-Za-z]\w*\b/g) ?? [];
    const refersTo = [...new Set(words)].filter((word) => word !== name && local.has(word));
    const isExported = /^export /m.test(whole.slice(comment.length));
    return {
      name: name!,
      kind: kind!,
      doc: docOf(comment),
      declaration,
      refersTo,
      members: membersOf(declaration),
      isExported,
    };
  });
}

/** The text of a JSDoc comment, in one line per paragraph. */
function docOf(comment: string): string {
  const lines = comment.replace(/^\/\*\*|\*\/$/g, "").split("\n");
  return lines
    .map((line) => line.replace(/^\s*\* ?/, "").trim())
    .join(" ")
    .trim();
}

function shown(declaration: string): string {
  const bare = declaration.replace(/^export /, "").replace(/^declare /, "");
  return bare.replace(MEMBER, (member) => (/^ {4}#private;|^ {4}private |@internal/.test(member) ? "" : member));
}

function membersOf(declaration: string): ReadonlyMap<string, string> {
  return new Map(
    [...declaration.matchAll(MEMBER)].map(([whole, comment = ""]) => {
      const [name] = /^(?:readonly )?[^:;]*/.exec(whole.replace(comment, "").trim())!;
      return [name.replace(/^readonly /, ""), docOf(comment)];
    }),
  );
}
