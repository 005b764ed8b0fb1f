// The part of a browser's interface that src/browser uses: the rest of the program is not written for one, so its library is not loaded.

interface WebWorker {
  onmessage: ((event: { data: unknown }) => void) | null;
  onerror: ((event: { message: string }) => void) | null;
  postMessage(message: unknown): void;
  terminate(): void;
}

interface WebCache {
  match(url: string): Promise<Response | undefined>;
  put(url: string, response: Response): Promise<void>;
}

interface BrowserScope {
  readonly location: { readonly href: string };
  readonly Worker: new (url: URL, options: { type: "module" }) => WebWorker;
  /** Absent where the page is not served securely. */
  readonly caches?: { open(name: string): Promise<WebCache>; delete(name: string): Promise<boolean> };
  /** Whether memory may be shared between threads. */
  readonly crossOriginIsolated?: boolean;
  readonly navigator: { readonly hardwareConcurrency: number; readonly gpu?: unknown };
}

/** Of a worker. */
interface WorkerScope {
  onmessage: ((event: { data: unknown }) => void) | null;
  postMessage(message: unknown): void;
  close(): void;
}
