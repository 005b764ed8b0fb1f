// Files as the formats read them, in memory: what a page has fetched stands where a model folder would.

type Stat = { readonly size: number; isFile(): boolean; isDirectory(): boolean; isFIFO(): boolean };

const files = new Map<string, Uint8Array>();
const open = new Map<number, Uint8Array>();
let numOpened = 2;

/** Puts a file there. */
export function writeFileSync(path: string, bytes: Uint8Array): void {
  files.set(path, bytes);
}

export function existsSync(path: string): boolean {
  return files.has(path) || isFolder(path);
}

export function readdirSync(path: string): string[] {
  const inside = [...files.keys()].filter((file) => file.startsWith(`${path}/`));
  return [...new Set(inside.map((file) => file.slice(path.length + 1).split("/")[0]!))];
}

export function statSync(path: string, options: { throwIfNoEntry?: boolean } = {}): Stat | undefined {
  const bytes = files.get(path);
  if (bytes !== undefined) return statOf(bytes);
  if (isFolder(path)) return { size: 0, isFile: () => false, isDirectory: () => true, isFIFO: () => false };
  if (options.throwIfNoEntry === false) return undefined;
  throw absent(path);
}

export function readFileSync(path: string): string {
  return new TextDecoder().decode(bytesOf(path));
}

export function openSync(path: string): number {
  open.set(++numOpened, bytesOf(path));
  return numOpened;
}

export function fstatSync(fd: number): Stat {
  return statOf(open.get(fd)!);
}

export function readSync(fd: number, to: Uint8Array, offset: number, length: number, position: number): number {
  const from = open.get(fd)!.subarray(position, position + length);
  to.set(from, offset);
  return from.length;
}

export function closeSync(fd: number): void {
  open.delete(fd);
}

/** What a browser's engine never does: keep a cache on disk. */
function never(): never {
  throw new Error("there is no disk in a browser");
}

export {
  never as fsyncSync,
  never as mkdirSync,
  never as read,
  never as renameSync,
  never as rmSync,
  never as writeSync,
};

function bytesOf(path: string): Uint8Array {
  const bytes = files.get(path);
  if (bytes === undefined) throw absent(path);
  return bytes;
}

function isFolder(path: string): boolean {
  for (const file of files.keys()) if (file.startsWith(`${path}/`)) return true;
  return false;
}

function statOf(bytes: Uint8Array): Stat {
  return { size: bytes.length, isFile: () => true, isDirectory: () => false, isFIFO: () => false };
}

function absent(path: string): Error {
  return Object.assign(new Error(`ENOENT: ${path}`), { code: "ENOENT" });
}
