// In the place of src/formats/hub/hub.ts and hub-cache.ts: the page has fetched the model already.

export function locateModel(model: string): string {
  return model;
}

export async function resolveModel(model: string): Promise<string> {
  return model;
}

export function modelNameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
