// In the place of src/engine/client/tokenizer-thread.ts: a browser's engine is in a thread of its own already, and tokenises there.

export class TokenizerThread {
  encode(): Promise<number[]> {
    return Promise.reject(new Error("a browser's engine tokenises on its own thread"));
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
