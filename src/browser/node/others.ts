// The rest of what the engine takes from Node, for a browser. scripts/build-browser.mjs puts it in the place of node: modules.

export function fileURLToPath(url: URL): string {
  return url.pathname;
}

export function randomUUID(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function randomBytes(count: number): Uint8Array {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(count)));
}

/** A browser's page has no other page's expressions to fear. */
export function runInNewContext(_code: string, { texts, expression }: { texts: string[]; expression: RegExp }): void {
  for (const text of texts) text.replace(expression, "");
}

/** Names models and engines among other machines of a cluster, which a tab never joins: any name will do. */
export function createHash() {
  let state = 0x811c9dc5;
  const hash = {
    update(part: string | Uint8Array) {
      const bytes = typeof part === "string" ? new TextEncoder().encode(part) : part;
      for (const byte of bytes) state = Math.imul(state ^ byte, 0x01000193);
      return hash;
    },
    digest: () => (state >>> 0).toString(16).padStart(64, "0"),
  };
  return hash;
}

function absent(): never {
  throw new Error("this part of the engine does not run in a browser");
}

export { absent as spawnSync, absent as Worker };
