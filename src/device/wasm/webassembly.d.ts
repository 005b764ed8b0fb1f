// The part of WebAssembly's interface that is used here: it is declared with a browser's library only, and this is no browser's program.

declare namespace WebAssembly {
  class Module {
    private constructor();
  }
  class Memory {
    constructor(options: { initial: number; maximum: number; shared: true });
    readonly buffer: SharedArrayBuffer;
  }
  class Instance {
    constructor(module: Module, imports: object);
    readonly exports: Record<string, unknown>;
  }
  interface Global {
    value: number;
  }
  function compile(bytes: Uint8Array | ArrayBuffer): Promise<Module>;
  function instantiate(
    module: Module,
    imports: Record<string, Record<string, unknown>>,
  ): Promise<{ readonly exports: Record<string, unknown> }>;
}
