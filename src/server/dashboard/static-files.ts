// The dashboard's files, where they have been built. Everything else under / that no route answers is not found.

import { existsSync, readFileSync, statSync } from "node:fs";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../../web/dist/", import.meta.url));
const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".json": "application/json",
  ".map": "application/json",
  ".woff2": "font/woff2",
};
/** The page needs its own files and its own server, nothing inline, nothing from elsewhere; text becomes HTML through DOMPurify only. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify";

/** The file of a URL path; null when there is none. `root`: the folder, with a slash at its end. */
export function staticFile(path: string, root = ROOT): Response | null {
  const name = normalize(decode(path)).replace(/^[/\\]+/, "") || "index.html";
  if (name.startsWith("..")) return null;
  const file = join(root, name);
  const type = TYPES[extname(file)];
  if (type === undefined || !file.startsWith(root) || !existsSync(file) || !statSync(file).isFile()) return null;
  return new Response(readFileSync(file), {
    headers: {
      "content-type": type,
      // The bundler puts a hash into the names under assets/.
      "cache-control": name.startsWith("assets/") ? "public, max-age=31536000, immutable" : "no-cache",
      "content-security-policy": POLICY,
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    },
  });
}

function decode(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
