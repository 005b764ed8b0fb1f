import assert from "node:assert/strict";
import { test } from "node:test";
import { CapacityError, EngineDeadError, ERRORS, type ErrorCode, errorFor, RequestError } from "../../core/errors.js";
import { ApiError, toHttpError } from "./api-error.js";

/** Every code's status; those that are not here are of the kind's. */
const STATUSES: Readonly<Record<number, readonly string[]>> = {
  401: ["invalid_api_key"],
  403: ["host_not_allowed", "origin_not_allowed", "admin_key_needed", "adapter_not_allowed", "hub_models_off"],
  404: [
    ...["model_not_found", "adapter_unknown", "not_found", "item_not_found", "response_not_found", "step_not_found"],
    ...["file_not_found", "batch_not_found"],
  ],
  405: ["method_not_allowed"],
  409: ["model_in_use"],
  413: ["body_too_large"],
  415: ["unsupported_media_type"],
  429: ["queue_full", "pictures_full", "too_many_looks"],
  499: ["aborted"],
  501: ["batches_off"],
  503: [
    ...["draining", "cut_by_shutdown", "no_replica", "replicas_lost", "replicas_replaced"],
    ...["model_unavailable", "engine_not_ready", "engine_dead"],
  ],
  507: ["files_full"],
};
const KINDS = { request: 400, http: 400, config: 500, format: 500, device: 500 } as const;
const TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  404: "not_found_error",
  429: "rate_limit_error",
  500: "server_error",
  501: "server_error",
  503: "server_error",
  507: "server_error",
};

test("every code has its status, and every status its type", () => {
  for (const code of Object.keys(ERRORS) as ErrorCode[]) {
    const special = Object.entries(STATUSES).find(([, codes]) => codes.includes(code))?.[0];
    const { kind } = ERRORS[code] as { kind: keyof typeof KINDS };
    const expected = code === "internal_error" ? 500 : special === undefined ? KINDS[kind] : Number(special);
    for (const error of [errorFor(code), new ApiError(code, "message")]) {
      const { status, body } = toHttpError(error);
      assert.equal(status, expected, code);
      assert.equal(body.error.type, TYPES[status] ?? "invalid_request_error", code);
      assert.equal(body.error.code, code);
    }
  }
});

test("an error says which field is at fault as bodies name it; what is not ours says nothing", () => {
  const details = { param: "maxTokens", value: 3, expected: "at most topLogprobs or minTokens" };
  assert.deepEqual(toHttpError(new RequestError("invalid_value", details)), {
    status: 400,
    headers: {},
    body: {
      error: {
        message: "maxTokens is 3; it must be at most topLogprobs or min_tokens.".replace("maxTokens", "max_tokens"),
        type: "invalid_request_error",
        param: "max_tokens",
        code: "invalid_value",
      },
    },
    excess: null,
  });
  assert.equal(toHttpError(new RequestError("invalid_value", { param: "salt" })).body.error.param, "cache_salt");
  assert.equal(toHttpError(new RequestError("aborted")).body.error.param, null);
  const own = new ApiError("not_found", "gone", { param: "maxTokens", headers: { allow: "GET" } });
  assert.deepEqual(toHttpError(own), {
    status: 404,
    headers: { allow: "GET" },
    body: { error: { message: "gone", type: "not_found_error", param: "maxTokens", code: "not_found" } },
    excess: null,
  });
  for (const thrown of [new Error("/home/me"), "text", null])
    assert.deepEqual(toHttpError(thrown).body.error, {
      message: "The server failed unexpectedly; its log says why.",
      type: "server_error",
      param: null,
      code: "internal_error",
    });
});

test("what may succeed later says when to come back", () => {
  const retryOf = (error: Error) => toHttpError(error).headers["retry-after"];
  assert.equal(retryOf(new CapacityError("queue_full", { retryAfter: 7 })), "7");
  assert.equal(retryOf(new CapacityError("draining")), "1");
  assert.equal(retryOf(new EngineDeadError("engine_dead")), "1");
  assert.equal(retryOf(new RequestError("aborted")), undefined);
});

test("what the machine said goes to those who may know it, and to no other key", () => {
  const said = "/home/secret/model.gguf: cuLaunchKernel";
  for (const code of ["step_failed", "engine_dead", "out_of_memory", "device_call"] as const) {
    const error = errorFor(code, { reason: said, device: said, call: said, remedy: said });
    assert.ok(toHttpError(error).body.error.message.includes(said), code);
    const { body, status } = toHttpError(error, false);
    assert.ok(!body.error.message.includes(said), code);
    assert.deepEqual([body.error.code, status], [code, toHttpError(error).status]);
  }
  const own = new RequestError("invalid_value", { param: "n", value: 3, expected: "less" });
  assert.deepEqual(toHttpError(own, false), toHttpError(own));
});
