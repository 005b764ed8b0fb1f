// Entry of the thread that parses long bodies.

import { serveTasks } from "../../threads/task-worker.js";
import { setThreadClass } from "../../threads/thread-class.js";
import { BODIES } from "../schemas/bodies.js";
import { ApiError } from "./api-error.js";
import type { BodyTask, ParsedBody } from "./body-thread.js";
import { parseBody } from "./parse-body.js";

await setThreadClass("background");
serveTasks(({ schema, bytes, isStrict }: BodyTask): ParsedBody => {
  try {
    return parseBody(BODIES[schema], bytes, isStrict);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { code, message, param } = error;
    return { fault: { code, message, param } };
  }
});
