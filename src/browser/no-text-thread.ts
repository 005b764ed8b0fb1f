// In the place of src/engine/client/text-thread.ts: a browser's engine is in a thread of its own already, and works on texts there.

export class TextThread {
  run(): Promise<never> {
    return Promise.reject(new Error("a browser's engine works on texts in its own thread"));
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
