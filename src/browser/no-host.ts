// In the place of src/engine/client/host.ts: index.ts starts the engine's worker itself, for the model is fetched there first.

export function startHost(): never {
  throw new Error("createEngine of pagoda/browser starts an engine in a browser");
}
