// Pagoda as a library. See README.md for a program of six lines.

export { ENGINE_OPTIONS, type EngineConfig } from "./config/engine-config.js";
export {
  CapacityError,
  ConfigError,
  DeviceError,
  EngineDeadError,
  type ErrorCode,
  FormatError,
  PagodaError,
  RequestError,
} from "./core/errors.js";
export type { FinishReason } from "./core/request.js";
export type { PositionLogprobs, SamplingParams, TokenLogprob } from "./core/sampling.js";
export { createEngine, type EngineOptions } from "./engine/client/engine.js";
export type { ObjectRequest, ObjectResult } from "./engine/client/object.js";
export type * from "./engine/types.js";
export type { ConstraintSpec } from "./grammar/constraint.js";
export { createServer, type PagodaServer, type ServerOptions } from "./server/server.js";
