// Every error a user can meet, in one table: code -> class, message template, parameter at fault.
// A message says the value, the limit and the remedy. docs/reference/errors.md is generated from this table; only the server
// turns them into HTTP. Placeholders in braces are filled from the details given to the constructor.

/** Whose fault an error is; each kind but http has a class of its own. */
export type ErrorKind = "request" | "config" | "format" | "capacity" | "device" | "dead" | "http";

interface ErrorRow {
  readonly kind: ErrorKind;
  /** The request field or option at fault, when it is always the same one; `{param}` in details overrides it. */
  readonly param?: string;
  /** HTTP status, where it is not that of the kind. */
  readonly status?: number;
  readonly message: string;
}

export const ERRORS = {
  // --- request: the caller's fault, names the parameter ---------------------------------------------------------
  empty_prompt: { kind: "request", param: "prompt", message: "The prompt is empty; give at least one token." },
  context_length_exceeded: {
    kind: "request",
    param: "prompt",
    message:
      "The prompt has {value} tokens; this model's maximum context length is {limit} tokens, at least one of them for the answer. Shorten the prompt.",
  },
  text_too_long: {
    kind: "request",
    param: "input",
    message:
      "The text has {value} tokens; this engine takes texts of up to {limit}. Shorten it, or have it cut (truncate).",
  },
  prompt_exceeds_pool: {
    kind: "request",
    param: "prompt",
    message:
      "The prompt needs {value} pages of the KV cache; the whole pool has {limit}. Shorten the prompt or give the engine more pages (numPages).",
  },
  token_out_of_range: {
    kind: "request",
    param: "prompt",
    message: "Token id {value} at index {index} is outside the vocabulary 0..{limit}.",
  },
  invalid_value: { kind: "request", message: "{param} is {value}; it must be {expected}." },
  unknown_field: { kind: "request", message: "Unknown option {param}. {known}" },
  thread_unsupported_request: {
    kind: "request",
    param: "thread",
    message: "Conversations are not kept here; send the whole of it with every request.",
  },
  task_unsupported: { kind: "request", param: "model", message: "The model {model} cannot {task}: {reason}" },
  image_unsupported: {
    kind: "request",
    param: "image",
    message: "The picture cannot be used: {reason}. Send a PNG, JPEG, WebP or GIF.",
  },
  image_corrupt: { kind: "request", param: "image", message: "The {format} picture cannot be decoded: {reason}." },
  image_too_large: {
    kind: "request",
    param: "image",
    message: "The picture has {value} {what}; the limit is {limit}. Send a smaller one.",
  },
  image_too_slow: {
    kind: "request",
    param: "image",
    message: "Reading the picture took longer than {limit} s. Send a smaller one.",
  },
  too_many_images: {
    kind: "request",
    param: "messages",
    message: "The request has {value} pictures; the limit is {limit} (maxImages). Send fewer.",
  },
  no_eyes: {
    kind: "request",
    param: "messages",
    message: "The model {model} does not see pictures: {reason}. Send text, or load a model that sees.",
  },
  image_not_allowed: {
    kind: "request",
    param: "image",
    message: "The picture may not be read from there: {reason}. Send its bytes as a data: URL.",
  },
  image_not_fetched: {
    kind: "request",
    param: "image",
    message: "The picture could not be fetched: {reason}. Send its bytes as a data: URL.",
  },
  no_chat_template: {
    kind: "request",
    param: "messages",
    message:
      "The model {model} has no chat template. Give it a plain prompt instead: generate(), pagoda generate, /v1/completions.",
  },
  template_failed: {
    kind: "request",
    param: "messages",
    message: "The chat template refused these messages: {reason}",
  },
  text_failed: { kind: "request", param: "prompt", message: "The text could not be tokenised: {reason}." },
  aborted: { kind: "request", status: 499, message: "The request was aborted by its caller." },
  invalid_schema: {
    kind: "request",
    param: "constraint",
    message: "The JSON schema cannot be used: {reason} (at {path}).",
  },
  invalid_regex: {
    kind: "request",
    param: "constraint",
    message: "The regular expression cannot be used: {reason} (near character {index}).",
  },
  object_cut: {
    kind: "request",
    param: "maxTokens",
    message:
      "The answer was cut after {value} tokens, before its object was complete. Raise maxTokens or shorten the prompt.",
  },
  object_invalid: { kind: "request", param: "schema", message: "The object is not valid under its schema: {reason}" },
  no_token_left: {
    kind: "request",
    message:
      "No token is left to choose after {index} tokens of the answer: the constraint, logit bias or hook forbids all. Loosen it. Where none of them is set, the model's logits are not numbers: pagoda verify tells.",
  },
  invalid_grammar: { kind: "request", param: "constraint", message: "The grammar cannot be used: {reason}" },

  // --- config: options of the engine or the command line --------------------------------------------------------
  invalid_option: { kind: "config", message: "Option {param} is {value}; it must be {expected}." },
  unknown_option: { kind: "config", message: "Unknown option {param}. {known}" },
  unknown_command: { kind: "config", message: "Unknown command {value}. {known}" },
  wrong_usage: { kind: "config", message: "{reason} Usage: pagoda {usage}" },
  address_unavailable: {
    kind: "config",
    message: "Cannot listen on {value}: {reason}. Choose another address with --host and --port.",
  },
  server_unreachable: {
    kind: "config",
    param: "--url",
    message: "No server answers at {value}: {reason}. Start one with pagoda serve, or name another with --url.",
  },
  agent_missing: { kind: "config", message: "{value} is not installed: {reason}" },
  server_refused: { kind: "config", message: "The server at {value} refuses: {reason}" },
  package_missing: {
    kind: "config",
    message: "{feature} needs packages that are not installed: {value}. Run: npm install {value}",
  },
  nats_unreachable: {
    kind: "config",
    param: "nats",
    message:
      "Cannot join the cluster over NATS at {value}: {reason}. It needs a nats-server with JetStream (nats-server -js) that lets this member in.",
  },

  adapter_unknown: {
    kind: "request",
    status: 404,
    param: "adapter",
    message: "There is no adapter {value}. Known: {known}. Load it first (loadAdapter, --adapter NAME=PATH).",
  },
  adapter_taken: {
    kind: "request",
    param: "adapter",
    message: "The adapter {value} is loaded already, from {path}. Unload it first, or choose another name.",
  },

  // --- format: model files --------------------------------------------------------------------------------------
  model_not_found: { kind: "format", status: 404, param: "model", message: "No model at {path}: {reason}" },
  file_corrupt: { kind: "format", message: "{file}: {what}: expected {expected}, found {found}." },
  file_incomplete: {
    kind: "format",
    message: "{file} is incomplete: it has {found} bytes, its header describes {expected}. Download it again.",
  },
  tensor_missing: {
    kind: "format",
    message: "{file}: tensor {tensor} is missing; expected shape [{expected}]. The checkpoint may be half-copied.",
  },
  tensor_mismatch: { kind: "format", message: "{file}: tensor {tensor}: expected {expected}, found {found}." },
  tensor_unread: {
    kind: "format",
    message:
      "{file}: nothing in {architecture} reads tensor {tensor}. The checkpoint was made for another forward than this architecture's.",
  },
  adapter_unfit: {
    kind: "format",
    message: "{file}: tensor {tensor} cannot be used: {reason}. Every tensor of an adapter must fit the base model.",
  },
  adapter_too_large: {
    kind: "format",
    param: "adapter",
    message:
      "{file}: the adapter takes {value} bytes; {limit} are left for it beside pinned ones ({pinned}). Raise adapterMemory, or unpin others.",
  },
  unsupported_architecture: {
    kind: "format",
    message: "Architecture {value} is not supported. Supported: {known}.",
  },
  unsupported_model_option: {
    kind: "format",
    message: "{file}: {param} = {value} is not supported. Supported: {known}.",
  },
  draft_unsuitable: {
    kind: "format",
    param: "draftModel",
    message: "{file} cannot guess for {model}: {reason}.",
  },
  draft_vocabulary: {
    kind: "format",
    param: "draftModel",
    message:
      "{file} cannot guess for {model}, since they have different vocabularies: {reason}. Give a draft model of the same family.",
  },
  hub_denied: {
    kind: "format",
    param: "model",
    message:
      "The hub refuses {model} (status {status}): it is private, gated or does not exist. Check the name, accept the model's terms on its page, or set HF_TOKEN.",
  },
  hub_unreachable: {
    kind: "format",
    param: "model",
    message: "Cannot fetch {model} from {endpoint}: {reason}. Check the network and HF_ENDPOINT.",
  },
  pull_failed: {
    kind: "format",
    param: "model",
    message: "{model} could not be fetched: {reason}. What came so far is kept; pull again to continue.",
  },

  // --- capacity: retry later ------------------------------------------------------------------------------------
  queue_full: { kind: "capacity", message: "The queue holds {value} requests, its limit is {limit}. Retry later." },
  pictures_full: { kind: "capacity", message: "Pictures would take {value} MiB; the limit is {limit}. Retry later." },
  draining: {
    kind: "capacity",
    status: 503,
    message: "The engine is shutting down and takes no new requests. Retry on another server.",
  },

  too_many_looks: {
    kind: "capacity",
    message: "More than {limit} requests a second for {value}. Ask less often, or follow /api/steps as a stream.",
  },

  cut_by_shutdown: {
    kind: "capacity",
    status: 503,
    message:
      "The server shut down before the answer was complete: it was given {value} s to finish (drainSeconds). Retry on another server.",
  },

  no_replica: {
    kind: "capacity",
    status: 503,
    message:
      "No replica of {model} that could take this request has been heard in the cluster {cluster} for {value} s. Retry later; pagoda cluster status shows who is there.",
  },
  replicas_lost: {
    kind: "capacity",
    status: 503,
    message:
      "{value} replicas were lost one after another while they served this request; it is given up. The last: {reason}",
  },

  replicas_replaced: {
    kind: "capacity",
    status: 503,
    message:
      "The replicas of {model} that began this answer are gone, and no replica of their version came back within {value} s. The remaining replicas have another version and would answer differently. Retry the request.",
  },

  // --- device and engine ----------------------------------------------------------------------------------------
  device_unavailable: { kind: "device", param: "device", message: "Device {device} cannot be used here: {reason}" },
  device_call: { kind: "device", message: "{device}: {call} failed with status {status}: {reason}" },
  out_of_memory: {
    kind: "device",
    message: "{device}: cannot allocate {value} bytes for {what}; {limit} bytes are free. {remedy}",
  },
  device_lost: {
    kind: "device",
    message: "{device}: the GPU was lost (a reset of its driver, or sleep). The engine opens it again.",
  },
  step_failed: { kind: "device", message: "The step that ran this request failed: {reason}" },
  // --- http: what only a server can say --------------------------------------------------------------------------
  invalid_json: { kind: "http", status: 400, message: "The body is not JSON: {reason}" },
  invalid_api_key: { kind: "http", status: 401, message: "No API key was given, or it is not one of this server's." },
  host_not_allowed: { kind: "http", status: 403, message: "This server does not answer as {value}." },
  origin_not_allowed: { kind: "http", status: 403, message: "Pages of {value} may not use this server." },
  admin_key_needed: {
    kind: "http",
    status: 403,
    message: "Unloading {value} would touch the requests of other keys: it takes a key of adminKey.",
  },
  adapter_not_allowed: {
    kind: "http",
    status: 403,
    message: "The adapter {value} is not below the folder that adapters may be loaded from (adapterDir).",
  },
  hub_models_off: { kind: "http", status: 403, message: "The server was started without --hub-models." },
  not_found: { kind: "http", status: 404, message: "There is no {value} here. /openapi.json lists what is." },
  item_not_found: {
    kind: "http",
    status: 404,
    message: "There is no item {value} here; send the item itself, or use previous_response_id.",
  },
  response_not_found: {
    kind: "http",
    status: 404,
    message: "There is no response {value} here: it was not stored, was deleted, or newer ones took its place.",
  },
  file_not_found: { kind: "http", status: 404, message: "There is no file or batch {value} here." },
  batches_off: {
    kind: "http",
    status: 501,
    message: "This server keeps no files: it was started without --batch-dir.",
  },
  files_full: {
    kind: "http",
    status: 507,
    message: "There is no room for the file: delete others, or raise batchDiskMb.",
  },
  model_in_use: {
    kind: "http",
    status: 409,
    message: "The model {value} stays: it is in use.",
  },
  model_unavailable: {
    kind: "http",
    status: 503,
    message: "The model {value} could not be loaded, or there is no memory for it while others are in use.",
  },
  step_not_found: { kind: "http", status: 404, message: "Step {value} is not among the last thousand." },
  method_not_allowed: { kind: "http", status: 405, message: "{value} takes {expected}." },
  body_too_large: {
    kind: "http",
    status: 413,
    message: "The body is larger than {limit} bytes. Send less, or raise maxBodyMb.",
  },
  unsupported_media_type: {
    kind: "http",
    status: 415,
    message: "The content type is {value}; send the body as application/json.",
  },
  internal_error: { kind: "http", status: 500, message: "The server failed unexpectedly; its log says why." },
  engine_not_ready: { kind: "http", status: 503, message: "The engine is {value}." },
  engine_dead: { kind: "dead", message: "The engine has stopped: {reason} Create a new engine." },
} as const satisfies Record<string, ErrorRow>;

/** What went wrong, for programs: docs/reference/errors.md lists all codes. */
export type ErrorCode = keyof typeof ERRORS;
/** The values that a message names. */
export type ErrorDetails = Readonly<Record<string, string | number | boolean | undefined>>;

/** Every error the library throws on purpose. The message says the value, the limit and the remedy. */
export class PagodaError extends Error {
  readonly code: ErrorCode;
  readonly kind: ErrorKind;
  /** The option or field at fault, where it is one. */
  readonly param: string | undefined;
  readonly details: ErrorDetails;

  /** The message is the code's, filled with the details. */
  constructor(code: ErrorCode, details: ErrorDetails = {}, options?: ErrorOptions) {
    const row: ErrorRow = ERRORS[code];
    super(fill(row.message, details), options);
    this.name = code === "aborted" ? "AbortError" : new.target.name; // what callers of fetch and streams look for
    this.code = code;
    this.kind = row.kind;
    this.param = typeof details.param === "string" ? details.param : row.param;
    this.details = details;
  }
}

/** The caller's fault: a field of this one request is wrong. */
export class RequestError extends PagodaError {}
/** An option of the engine or the command line is wrong. */
export class ConfigError extends PagodaError {}
/** A model file is missing, corrupt or of an unsupported kind. */
export class FormatError extends PagodaError {}
/** The engine is full or closing: the same request may succeed later. */
export class CapacityError extends PagodaError {}
/** A device call failed. */
export class DeviceError extends PagodaError {}
/** The engine cannot continue. */
export class EngineDeadError extends PagodaError {}

const CLASS_OF: Record<ErrorKind, typeof PagodaError> = {
  request: RequestError,
  config: ConfigError,
  format: FormatError,
  capacity: CapacityError,
  device: DeviceError,
  dead: EngineDeadError,
  http: PagodaError, // the server has a class of its own
};

/** Makes the error of the right class for a code; errors cross the worker border as (code, details). */
export function errorFor(code: ErrorCode, details: ErrorDetails = {}, options?: ErrorOptions): PagodaError {
  return new CLASS_OF[ERRORS[code].kind](code, details, options);
}

function fill(template: string, details: ErrorDetails): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => String(details[name] ?? `{${name}}`));
}
