// The files of a model over fetch: a folder, a GGUF file, or a model of the hub by its id.

import { chooseFiles, HUB_URL, parseHubSpec } from "../formats/hub/hub-spec.js";
import { type KeptFile, keepFile } from "./kept-files.js";

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

/** done and total count bytes of the file at hand; total is 0 where the server does not say. */
export type FetchProgress = (file: string, done: number, total: number) => void;

export interface FetchedModel {
  readonly name: string;
  readonly files: ReadonlyMap<string, KeptFile>;
  /** The GGUF file to open; null: the folder of all files. */
  readonly main: string | null;
}

/** `model`: a URL, from `base`, or the id of a model of the hub: ORG/NAME[@REVISION][:FILE or QUANTISATION]. */
export async function fetchModel(
  model: string,
  base: string,
  hubUrl: string,
  onProgress: FetchProgress,
): Promise<FetchedModel> {
  const files = new Map<string, KeptFile>();
  const get = async (url: string, name: string): Promise<boolean> => {
    const file = await keepFile(url, (done, total) => onProgress(name, done, total));
    if (file !== null) files.set(name, file);
    return file !== null;
  };
  try {
    const spec = /^[./]|:\/\//.test(model) ? null : parseHubSpec(model);
    if (spec !== null) return await fromHub(spec, hubUrl, get, files);
    const url = new URL(model, base);
    const name = url.pathname.replace(/\/$/, "").split("/").at(-1) ?? "model";
    if (name.endsWith(".gguf")) {
      if (!(await get(url.href, name))) throw new Error(`there is no model at ${url.href}`);
      return { name, files, main: name };
    }
    await getFolder(url.href.replace(/\/$/, ""), get, files);
    return { name, files, main: null };
  } catch (error) {
    for (const file of files.values()) file.close();
    throw error;
  }
}

type Get = (url: string, name: string) => Promise<boolean>;
type Files = ReadonlyMap<string, KeptFile>;

async function fromHub(
  spec: NonNullable<ReturnType<typeof parseHubSpec>>,
  hubUrl: string,
  get: Get,
  files: Files,
): Promise<FetchedModel> {
  const hub = (hubUrl || HUB_URL).replace(/\/$/, "");
  const answer = await fetch(`${hub}/api/models/${spec.repo}/revision/${encodeURIComponent(spec.revision)}`);
  if (!answer.ok) throw new Error(`the hub answers ${answer.status} for ${spec.text}`);
  const { siblings } = (await answer.json()) as { siblings: readonly { readonly rfilename: string }[] };
  const chosen = chooseFiles(
    spec,
    siblings.map(({ rfilename }) => rfilename),
  );
  const nameOf = (path: string): string => (chosen.main === null ? path : path.slice(path.lastIndexOf("/") + 1));
  for (const path of chosen.files) {
    const url = `${hub}/${spec.repo}/resolve/${encodeURIComponent(spec.revision)}/${path}`;
    if (!(await get(url, nameOf(path)))) throw new Error(`there is no ${path} in ${spec.text}`);
  }
  return {
    name: spec.repo.split("/").at(-1)!,
    files,
    main: chosen.main === null ? null : nameOf(chosen.main),
  };
}

/** All files of the folder at `url`. Files that a model may lack are left out where the server has none. */
async function getFolder(url: string, get: Get, files: Files): Promise<void> {
  const has = (name: string): Promise<boolean> => get(`${url}/${name}`, name);
  const json = (name: string): unknown => {
    const file = files.get(name)!;
    const bytes = new Uint8Array(file.size);
    file.read(bytes, 0);
    return JSON.parse(new TextDecoder().decode(bytes));
  };
  for (const name of SMALL) await has(name);
  if (!files.has("config.json")) throw new Error(`there is no model at ${url}: it has no config.json`);
  const config = json("config.json") as { vision_config?: unknown };
  if (config.vision_config !== undefined) for (const name of EYES) await has(name);
  if (await has(SINGLE)) return;
  if (!(await has(INDEX))) throw new Error(`${url} has neither ${SINGLE} nor ${INDEX}`);
  const index = json(INDEX) as { weight_map: Record<string, string> };
  for (const name of new Set(Object.values(index.weight_map))) await has(name);
}
