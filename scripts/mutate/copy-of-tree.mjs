// A copy of the built tree to change things in: what may be changed is copied, what is large is linked.

import { cpSync, existsSync, mkdtempSync, readdirSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const LINKED = new Set(["node_modules", "models", "build", ".git"]);

/** The copy's root. Its folder is its own, so that ../shared (the golden checkpoints) can stand beside it. */
export function copyOfTree() {
  const folder = mkdtempSync(join(tmpdir(), "pagoda-mutate-"));
  const root = join(folder, "pagoda");
  for (const name of readdirSync(".")) {
    if (!LINKED.has(name)) cpSync(name, join(root, name), { recursive: true });
  }
  for (const name of LINKED) if (existsSync(name)) symlinkSync(resolve(name), join(root, name));
  if (existsSync("../shared")) symlinkSync(resolve("../shared"), join(folder, "shared"));
  return root;
}
