// Paths of the files in memory: absolute, with slashes, without dots.

export function join(...parts: string[]): string {
  return parts.join("/").replace(/\/{2,}/g, "/");
}

export function resolve(path: string): string {
  return path;
}

/** Without dots already. */
export function normalize(path: string): string {
  return path;
}

export function dirname(path: string): string {
  return path.slice(0, path.lastIndexOf("/")) || "/";
}

export function basename(path: string, ending = ""): string {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return name.endsWith(ending) ? name.slice(0, name.length - ending.length) : name;
}

export function relative(from: string, to: string): string {
  return to.startsWith(`${from}/`) ? to.slice(from.length + 1) : to;
}
