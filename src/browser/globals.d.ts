// The part of a browser's interface that src/browser uses: the rest of the program is not written for one, so its library is not loaded.

interface WebWorker {
  onmessage: ((event: { data: unknown }) => void) | null;
  onerror: ((event: { message: string }) => void) | null;
  postMessage(message: unknown): void;
  terminate(): void;
}

interface WebSyncFile {
  getSize(): number;
  read(to: Uint8Array, options: { at: number }): number;
  write(from: Uint8Array, options: { at: number }): number;
  truncate(size: number): void;
  flush(): void;
  close(): void;
}

interface WebFileHandle {
  getFile(): Promise<Blob>;
  createSyncAccessHandle(): Promise<WebSyncFile>;
}

/** A folder of the browser's private file system. */
interface WebFolder {
  getDirectoryHandle(name: string, options: { create: boolean }): Promise<WebFolder>;
  getFileHandle(name: string, options?: { create: boolean }): Promise<WebFileHandle>;
  removeEntry(name: string, options?: { recursive: boolean }): Promise<void>;
}

interface BrowserScope {
  readonly location: { readonly href: string };
  readonly Worker: new (url: URL, options: { type: "module" }) => WebWorker;
  /** Whether memory may be shared between threads. */
  readonly crossOriginIsolated?: boolean;
  readonly navigator: {
    readonly hardwareConcurrency: number;
    readonly gpu?: unknown;
    /** Absent where the page is not served securely. */
    readonly storage?: { getDirectory(): Promise<WebFolder> };
  };
}

/** Of a worker. */
interface WorkerScope {
  onmessage: ((event: { data: unknown }) => void) | null;
  postMessage(message: unknown): void;
  close(): void;
}
