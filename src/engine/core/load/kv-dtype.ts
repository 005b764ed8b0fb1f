// The element type of the KV cache.

import type { EngineConfig } from "../../../config/engine-config.js";
import type { Device, KvDtype } from "../../../device/device.js";
import type { ModelSpec } from "../../../models/model.js";

export function kvDtypeOf(
  config: Pick<EngineConfig, "kvDtype">,
  device: Device,
  { isBidirectional = false }: Pick<ModelSpec, "isBidirectional"> = {},
): KvDtype {
  if (config.kvDtype !== "auto") return config.kvDtype;
  // On the host, pages that are given back at once may as well be exact.
  return isBidirectional && !device.info.hasOwnMemory ? "f32" : device.info.kvDtype;
}
