// Pagoda as a library. See README.md for a program of six lines.

export type { AdapterStats } from "./adapters/adapter.js";
export type { GroupStats } from "./cache/cache-group.js";
export type { HostTierStats } from "./cache/host-tier.js";
export type { CacheSnapshot, GroupSnapshot, PageState, PrefixNode } from "./cache/snapshot.js";
export type { JsonSchema, Schema, SchemaIssue, SchemaOutput, SchemaResult, StandardSchema } from "./chat/schema.js";
export type { EngineConfig } from "./config/engine-config.js";
export type { ServerConfig } from "./config/server-config.js";
export type { SpeculativeConfig } from "./config/speculation.js";
export type { CacheKind } from "./core/cache-spec.js";
export {
  CapacityError,
  ConfigError,
  DeviceError,
  EngineDeadError,
  type ErrorCode,
  type ErrorDetails,
  type ErrorKind,
  FormatError,
  PagodaError,
  RequestError,
} from "./core/errors.js";
export type { PictureFrame } from "./core/media.js";
export type { Pooling } from "./core/pooling.js";
export type { FinishReason } from "./core/request.js";
export type { PositionLogprobs, SamplingParams, TokenLogprob } from "./core/sampling.js";
export type { Speculation, SpeculationMethod } from "./core/speculation.js";
export type { DeviceUsage } from "./device/device-info.js";
export type * from "./engine/chat-types.js";
export { createEngine, type EngineOptions } from "./engine/client/engine.js";
export type { ImageDetail, SeenPicture } from "./engine/client/pictures/seen-picture.js";
export type * from "./engine/types.js";
export type { CachedModel } from "./formats/hub/hub-cache.js";
export type { Pulled, PullOptions } from "./formats/hub/hub-pull.js";
export { listModels, pullModel } from "./formats/hub/models.js";
export type { ConstraintSpec } from "./grammar/constraint.js";
export type { LogitsHook } from "./sampler/sampler.js";
export type { Logger } from "./server/http/logger.js";
export type { GuestModel } from "./server/models/guest-model.js";
export {
  createHandler,
  createServer,
  type Handler,
  type HandlerOptions,
  type PagodaServer,
  type ServerOptions,
} from "./server/server.js";
export type { EncodeOptions, Spans } from "./tokenizer/tokenizer.js";
