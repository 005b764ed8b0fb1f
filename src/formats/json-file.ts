// Reads a JSON object from a file of a model folder, with errors that name the file.

import { readFileSync, statSync } from "node:fs";
import { FormatError } from "../core/errors.js";

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A pipe or a device in a model folder would be waited for, for ever. */
export function requireRegularFile(path: string): void {
  const stat = statSync(path);
  if (stat.isFile()) return;
  const found = stat.isDirectory() ? "a folder" : stat.isFIFO() ? "a pipe" : "a device or socket";
  throw new FormatError("file_corrupt", { file: path, what: "file", expected: "a regular file", found });
}

/** The file's text; null when there is no such file. */
export function tryReadText(path: string): string | null {
  try {
    requireRegularFile(path);
    return readFileSync(path, "utf8");
  } catch (error) {
    if (error instanceof FormatError) throw error;
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT") return null;
    throw new FormatError("file_corrupt", {
      file: path,
      what: "file",
      expected: "a readable file",
      found: String(code),
    });
  }
}

/** The object in the file; throws FormatError when it is absent, not JSON or not an object. */
export function readJsonObject(path: string): Record<string, unknown> {
  const value = tryReadJsonObject(path);
  if (value === null) {
    throw new FormatError("file_corrupt", {
      file: path,
      what: "file",
      expected: "a JSON file",
      found: "no such file; the folder may be half-copied",
    });
  }
  return value;
}

/** The same, but null when there is no such file. */
export function tryReadJsonObject(path: string): Record<string, unknown> | null {
  const text = tryReadText(path);
  if (text === null) return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const found = text.startsWith("version https://git-lfs")
      ? "a Git LFS pointer; fetch the file itself (git lfs pull)"
      : `${text.length} characters, ${(error as Error).message}`;
    throw new FormatError("file_corrupt", { file: path, what: "content", expected: "JSON", found });
  }
  if (!isRecord(value)) {
    const found = Array.isArray(value) ? "an array" : `a ${value === null ? "null" : typeof value}`;
    throw new FormatError("file_corrupt", { file: path, what: "content", expected: "a JSON object", found });
  }
  return value;
}
