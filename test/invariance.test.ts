import { runInvariance } from "./support/invariance.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";

const model = writeTinyCheckpoint();
runInvariance({ name: "reference", model, config: { device: "reference" } });
runInvariance({ name: "reference, f16 KV", model, config: { device: "reference", kvDtype: "f16" } });
