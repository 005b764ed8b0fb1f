// In the place of src/engine/client/pictures/fetch-picture.ts: a page fetches pictures itself.

import { errorFor } from "../core/errors.js";

export class PictureFetcher {
  fetch(): Promise<Uint8Array> {
    return Promise.reject(
      errorFor("image_not_fetched", { reason: "a page fetches pictures itself; give their bytes" }),
    );
  }
}
