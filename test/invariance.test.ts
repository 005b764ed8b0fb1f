import { runInvariance } from "./support/invariance.js";
import { LogitLedger } from "./support/logit-ledger.js";
import { writeTinyCheckpoint } from "./support/tiny-checkpoint.js";
import { UnblockingDevice } from "./support/unblocking-device.js";

const model = writeTinyCheckpoint();
const ledger = new LogitLedger();
runInvariance({ name: "reference", model, config: { device: "reference" }, ledger });
// To the bits of the device it wraps: the ledger is the same.
runInvariance({
  name: "a device that cannot block",
  model,
  config: { device: "reference", kvDtype: "f32" },
  open: () => new UnblockingDevice(),
  ledger,
});
runInvariance({ name: "reference, f16 KV", model, config: { device: "reference", kvDtype: "f16" } });
