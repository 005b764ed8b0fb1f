// In the place of src/engine/client/pictures/picture-thread.ts: a page prepares pictures itself.

import {
  type PictureAsker,
  type PictureInput,
  PictureReader,
  type ReaderOptions,
} from "../engine/client/pictures/picture-reader.js";
import type { ImageDetail, SeenPicture } from "../engine/client/pictures/seen-picture.js";

export class PictureThread {
  readonly #reader: PictureReader;

  constructor(options: ReaderOptions) {
    this.#reader = new PictureReader(options);
  }

  read(input: PictureInput, detail: ImageDetail, asker: PictureAsker): Promise<SeenPicture> {
    return this.#reader.read(input, detail, asker);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
