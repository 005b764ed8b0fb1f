// Pictures in the chat: attached by a button, pasted or dropped, shown small before and after they are sent. They are kept as data: URLs. What is
// shown is painted: nothing of a file becomes markup, and the page's policy lets no image in.

import { h } from "../dom.js";

const TYPES = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const HEIGHT = 96;
const WIDEST = 240;

/** Those that go with the next message. */
export class Attachments {
  readonly element = h("div", { class: "pictures", hidden: true, role: "group", "aria-label": "Pictures to send" });
  /** The button that adds pictures, where the model sees. */
  readonly control = h("span", { hidden: true });
  readonly #input = h("input", {
    ...{ type: "file", accept: TYPES.join(","), multiple: true, hidden: true, "aria-label": "Pictures" },
  });
  #urls: readonly string[] = [];
  /** The model sees. */
  #isOn = false;

  constructor() {
    const button = h("button", { class: "quiet", type: "button", onclick: () => this.#input.click() }, "Add picture");
    this.control.append(button);
    this.#input.addEventListener("change", () => {
      void this.add(this.#input.files);
      this.#input.value = "";
    });
  }

  setOn(isOn: boolean): void {
    this.#isOn = isOn;
    this.control.hidden = !isOn;
    if (isOn) this.control.append(this.#input);
    else this.#input.remove();
  }

  /** Takes the pictures among the files; false when there is none. */
  add(files: FileList | null | undefined): boolean {
    const pictures = [...(files ?? [])].filter(({ type }) => TYPES.includes(type));
    if (!this.#isOn || pictures.length === 0) return false;
    void Promise.all(pictures.map(urlOf)).then((urls) => this.#set([...this.#urls, ...urls]));
    return true;
  }

  take(): readonly string[] {
    const urls = this.#urls;
    this.#set([]);
    return urls;
  }

  get isEmpty(): boolean {
    return this.#urls.length === 0;
  }

  #set(urls: readonly string[]): void {
    this.#urls = urls;
    this.element.hidden = urls.length === 0;
    this.element.replaceChildren(
      ...urls.map((url, i) =>
        h(
          "span",
          { class: "picture" },
          thumbnail(url),
          h(
            "button",
            {
              ...{ class: "quiet small", type: "button", "aria-label": `Remove picture ${i + 1}` },
              onclick: () => this.#set(this.#urls.filter((_, other) => other !== i)),
            },
            "×",
          ),
        ),
      ),
    );
  }
}

/** The picture, small. */
export function thumbnail(url: string): HTMLElement {
  const canvas = h("canvas", {
    class: "thumbnail",
    role: "img",
    "aria-label": "Picture",
    width: HEIGHT,
    height: HEIGHT,
  });
  void paint(canvas, url);
  return canvas;
}

async function paint(canvas: HTMLCanvasElement, url: string): Promise<void> {
  try {
    const bitmap = await createImageBitmap(blobOf(url));
    const scale = Math.min(HEIGHT / bitmap.height, WIDEST / bitmap.width);
    canvas.width = Math.max(1, Math.round(bitmap.width * scale));
    canvas.height = Math.max(1, Math.round(bitmap.height * scale));
    canvas.getContext("2d")?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    canvas.dataset.painted = "true";
  } catch {
    canvas.setAttribute("aria-label", "Picture that cannot be shown");
  }
}

function blobOf(url: string): Blob {
  const comma = url.indexOf(",");
  const type = /^data:([^;,]*)/.exec(url)?.[1] ?? "";
  const text = atob(url.slice(comma + 1));
  return new Blob([Uint8Array.from(text, (char) => char.charCodeAt(0))], { type });
}

function urlOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
