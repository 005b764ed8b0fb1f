import assert from "node:assert/strict";
import { test } from "node:test";
import { writeTinyCheckpoint } from "../../../test/support/tiny-checkpoint.js";
import { engineConfig } from "../../config/engine-config.js";
import { errorFor } from "../../core/errors.js";
import { ReferenceDevice } from "../../device/reference/reference-device.js";
import { loadEngine } from "./load.js";

/** Says that it is a GPU, and has no room. */
class FullDevice extends ReferenceDevice {
  override readonly info = { ...new ReferenceDevice().info, name: "full", asyncDepth: 2 as const };
  isClosed = false;
  override loadWeight(): never {
    throw errorFor("out_of_memory", { device: "full", value: 2, what: "a weight", limit: 1, remedy: "None." });
  }
  override close(): void {
    this.isClosed = true;
  }
}

test("a model that does not fit the GPU: auto takes the cpu, a named device says so", async (t) => {
  const model = writeTinyCheckpoint();
  const said: string[] = [];
  t.mock.method(process.stderr, "write", (line: string) => said.push(line) > 0);
  for (const device of ["auto", "cuda"] as const) {
    const full = new FullDevice();
    const opened: string[] = [];
    const loading = loadEngine(
      engineConfig({ model, device, numPages: 8 }),
      () => {},
      async (config) => {
        opened.push(config.device);
        return config.device === device ? full : new ReferenceDevice();
      },
    );
    if (device === "cuda") await assert.rejects(loading, { code: "out_of_memory" });
    else (await loading).core.close();
    assert.deepEqual(opened, device === "cuda" ? ["cuda"] : ["auto", "cpu"]);
    assert.ok(full.isClosed);
  }
  assert.equal(said.filter((line) => line.includes("a weight") && line.includes("Using the cpu device")).length, 1);
});
