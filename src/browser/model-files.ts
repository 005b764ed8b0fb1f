// The files of a model folder over fetch, kept in the browser's storage for the next visit.

const CACHE = "pagoda-models";
const SMALL = [
  "config.json",
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "chat_template.jinja",
];
/** How pictures are prepared. */
const EYES = ["processor_config.json", "preprocessor_config.json"];
const SINGLE = "model.safetensors";
const INDEX = "model.safetensors.index.json";

export type ModelFiles = Map<string, Uint8Array>;
/** done and total count bytes of the file at hand; total is 0 where the server does not say. */
export type FetchProgress = (file: string, done: number, total: number) => void;

/** All files of the folder at `url`. Files that a model may lack are left out where the server has none. */
export async function fetchModel(url: string, onProgress: FetchProgress): Promise<ModelFiles> {
  const files: ModelFiles = new Map();
  const get = async (name: string): Promise<boolean> => {
    const bytes = await fetchFile(`${url.replace(/\/$/, "")}/${name}`, (done, total) => onProgress(name, done, total));
    if (bytes !== null) files.set(name, bytes);
    return bytes !== null;
  };
  for (const name of SMALL) await get(name);
  if (!files.has("config.json")) throw new Error(`there is no model at ${url}: it has no config.json`);
  const config = JSON.parse(new TextDecoder().decode(files.get("config.json"))) as { vision_config?: unknown };
  if (config.vision_config !== undefined) for (const name of EYES) await get(name);
  if (await get(SINGLE)) return files;
  if (!(await get(INDEX))) throw new Error(`${url} has neither ${SINGLE} nor ${INDEX}`);
  const index = JSON.parse(new TextDecoder().decode(files.get(INDEX))) as { weight_map: Record<string, string> };
  for (const name of new Set(Object.values(index.weight_map))) await get(name);
  return files;
}

/** Forgets every model that was kept. */
export async function deleteModels(): Promise<void> {
  await storage()?.delete(CACHE);
}

/** null: the server has no such file. */
async function fetchFile(url: string, onProgress: (done: number, total: number) => void): Promise<Uint8Array | null> {
  const cache = await storage()?.open(CACHE);
  const kept = await cache?.match(url);
  if (kept !== undefined) return new Uint8Array(await kept.arrayBuffer());
  const response = await fetch(url);
  if (response.status === 404) return null;
  if (!response.ok || response.body === null) throw new Error(`${url}: the server answers ${response.status}`);
  const total = Number(response.headers.get("content-length") ?? 0);
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let done = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { value } = await reader.read();
    if (value === undefined) break;
    parts.push(value as Uint8Array<ArrayBuffer>);
    done += value.length;
    onProgress(done, total);
  }
  const blob = new Blob(parts);
  // A full disk is no reason not to run.
  await cache?.put(url, new Response(blob)).catch(() => undefined);
  return new Uint8Array(await blob.arrayBuffer());
}

function storage(): BrowserScope["caches"] {
  return (globalThis as unknown as BrowserScope).caches;
}
