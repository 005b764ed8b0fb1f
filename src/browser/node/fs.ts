// Files as the formats read them: what a page has fetched, in memory or in the browser's file system, stands where a model folder would.

type Stat = { readonly size: number; isFile(): boolean; isDirectory(): boolean; isFIFO(): boolean };

/** A file that is read in pieces. */
export interface FileSource {
  readonly size: number;
  /** Fills `to` with the bytes from `at` on, as far as there are any; returns how many. */
  read(to: Uint8Array, at: number): number;
}

const files = new Map<string, FileSource>();
const open = new Map<number, FileSource>();
let numOpened = 2;

/** Puts a file there. */
export function writeFileSync(path: string, content: Uint8Array | FileSource): void {
  files.set(path, content instanceof Uint8Array ? inMemory(content) : content);
}

/** `size`: of the file whose first bytes these are; what is behind them cannot be read. */
export function inMemory(bytes: Uint8Array, size = bytes.length): FileSource {
  return {
    size,
    read(to, at) {
      const from = bytes.subarray(at, at + to.length);
      to.set(from);
      return from.length;
    },
  };
}

export function existsSync(path: string): boolean {
  return files.has(path) || isFolder(path);
}

export function readdirSync(path: string): string[] {
  const inside = [...files.keys()].filter((file) => file.startsWith(`${path}/`));
  return [...new Set(inside.map((file) => file.slice(path.length + 1).split("/")[0]!))];
}

export function statSync(path: string, options: { throwIfNoEntry?: boolean } = {}): Stat | undefined {
  const file = files.get(path);
  if (file !== undefined) return statOf(file);
  if (isFolder(path)) return { size: 0, isFile: () => false, isDirectory: () => true, isFIFO: () => false };
  if (options.throwIfNoEntry === false) return undefined;
  throw absent(path);
}

export function readFileSync(path: string): string {
  const file = fileAt(path);
  const bytes = new Uint8Array(file.size);
  file.read(bytes, 0);
  return new TextDecoder().decode(bytes);
}

export function openSync(path: string): number {
  open.set(++numOpened, fileAt(path));
  return numOpened;
}

export function fstatSync(fd: number): Stat {
  return statOf(open.get(fd)!);
}

export function readSync(fd: number, to: Uint8Array, offset: number, length: number, position: number): number {
  return open.get(fd)!.read(to.subarray(offset, offset + length), position);
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

function fileAt(path: string): FileSource {
  const file = files.get(path);
  if (file === undefined) throw absent(path);
  return file;
}

function isFolder(path: string): boolean {
  for (const file of files.keys()) if (file.startsWith(`${path}/`)) return true;
  return false;
}

function statOf({ size }: FileSource): Stat {
  return { size, isFile: () => true, isDirectory: () => false, isFIFO: () => false };
}

function absent(path: string): Error {
  return Object.assign(new Error(`ENOENT: ${path}`), { code: "ENOENT" });
}
